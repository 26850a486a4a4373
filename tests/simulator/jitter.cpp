#include "simulator/run/jitter.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

struct Moments {
  double mean, deviation;
};

Moments moments(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / static_cast<double>(values.size() - 1))};
}

constexpr int draws = 100'000;

}  // namespace

TEST_CASE("jitter has mean 1 and the requested coefficient of variation") {
  for (const double cv : {0.05, 0.3, 1.0}) {
    CAPTURE(cv);
    JitterFactors factors(Rng::for_task(7, 0), cv);
    std::vector<double> values;
    for (int i = 0; i < draws; ++i) values.push_back(factors.next());
    const auto [mean, deviation] = moments(values);
    // The mean of n draws has the standard deviation cv ÷ √n; five of these are tolerated. That of the sample
    // deviation is, with the kurtosis κ of the lognormal, deviation · √((κ − 1) ÷ 4n), κ = w⁴ + 2w³ + 3w² −
    // 3, w = 1 + cv².
    CHECK(std::abs(mean - 1) < 5 * cv / std::sqrt(draws));
    const double w = 1 + cv * cv, kurtosis = w * w * w * w + 2 * w * w * w + 3 * w * w - 3;
    CHECK(std::abs(deviation - cv) < 5 * cv * std::sqrt((kurtosis - 1) / (4.0 * draws)));
    // Half of them are below exp(μ) = 1 ÷ √(1 + cv²).
    const auto below = std::count_if(values.begin(), values.end(),
                                     [&](double value) { return value < 1 / std::sqrt(1 + cv * cv); });
    CHECK(std::abs(static_cast<double>(below) - draws / 2.0) < 5 * std::sqrt(draws / 4.0));
    CHECK(*std::min_element(values.begin(), values.end()) > 0);
  }
}

TEST_CASE("zero jitter is the factor 1 and a stream is reproducible") {
  JitterFactors none(Rng::for_task(1, 2), 0);
  for (int i = 0; i < 10; ++i) CHECK(none.next() == 1);
  JitterFactors a(Rng::for_task(1, 2), 0.1), b(Rng::for_task(1, 2), 0.1), c(Rng::for_task(1, 3), 0.1);
  CHECK(a.next() == b.next());
  CHECK(b.next() != c.next());
}

TEST_CASE("normal numbers are within one deviation as often as expected") {
  NormalNumbers normal(Rng::for_task(3, 1));
  int within = 0;
  double product = 0, last = normal.next();
  for (int i = 1; i < draws; ++i) {
    const double value = normal.next();
    within += std::abs(value) < 1 ? 1 : 0;
    product += value * last;
    last = value;
  }
  // This is erf(1 ÷ √2) = 0.6827 of them. Consecutive numbers, which are generated in pairs, are
  // uncorrelated.
  CHECK(std::abs(within - draws * std::erf(std::sqrt(0.5))) < 5 * std::sqrt(draws * 0.6827 * 0.3173));
  CHECK(std::abs(product / draws) < 5 / std::sqrt(draws));
}
