#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace tp {

// A histogram in the text format of Prometheus. Not thread-safe.
class Histogram {
 public:
  // `bounds`: upper bounds of the buckets, ascending.
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

  void add(double value) {
    const auto place = std::ranges::lower_bound(bounds_, value);
    ++counts_[static_cast<std::size_t>(place - bounds_.begin())];
    sum_ += value;
  }

  // `labels`: labels of every line, such as model_name="x".
  std::string text(std::string_view name, std::string_view help, std::string_view labels) const {
    std::string text = fmt::format("# HELP {0} {1}\n# TYPE {0} histogram\n", name, help);
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < bounds_.size(); ++i) {
      total += counts_[i];
      text += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bounds_[i], total);
    }
    total += counts_.back();
    text += fmt::format("{}_bucket{{{},le=\"+Inf\"}} {}\n", name, labels, total);
    return text + fmt::format("{0}_sum{{{1}}} {2}\n{0}_count{{{1}}} {3}\n", name, labels, sum_, total);
  }

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;
  double sum_ = 0.0;
};

}  // namespace tp
