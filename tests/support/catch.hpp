// Wraps Catch2 versions 2 and 3. contains("…") matches a part of a string.
#pragma once

#include <string>

#if DTFM_CATCH_V3
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
using Catch::Approx;
inline auto contains(const std::string& part) {
  return Catch::Matchers::ContainsSubstring(part);
}
#else
#include <catch2/catch.hpp>
inline auto contains(const std::string& part) {
  return Catch::Matchers::Contains(part);
}
#endif
