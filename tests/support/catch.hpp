// Catch2 2 and 3 behind one header.
#pragma once

#if DTFM_CATCH_V3
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
