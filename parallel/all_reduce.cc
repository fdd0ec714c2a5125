#include "parallel/all_reduce.h"

#include "parallel/stopwatch.h"
#include "tp/error.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace tp {
namespace {

constexpr Wait::Manner kManner{.collective = "the measurement of all-reduces"};

}  // namespace

AllReduce::AllReduce(MPI_Comm comm, const Patience& patience, Exchange& exchange)
    : exchange_(exchange), messages_(exchange, patience.placement.hosts) {
  const Way way = exchange.all_values(exchange.rank() == 0 ? forced_way() : Way::measured, kManner).front();
  if (way != Way::messages) shared_ = SharedSum::create(comm, patience, exchange, not_shared_because_);
  if (shared_ == nullptr) return;
  std::fill_n(shared_is_faster_, kSizeClasses, true);
  if (way == Way::measured) measure();
}

AllReduce::Way AllReduce::forced_way() {
  const char* const value = std::getenv("TP_ALL_REDUCE");
  const std::string_view name = value != nullptr ? value : "";
  if (name.empty() || name == "auto") return Way::measured;
  if (name == "shared") return Way::shared;
  require<ConfigError>(name == "messages",
                       "cannot choose a way for all-reduces: TP_ALL_REDUCE must be auto, shared or messages, "
                       "found \"{}\"",
                       name);
  return Way::messages;
}

void AllReduce::operator()(std::span<float> data, float* onto) {
  if (is_shared(data.size())) {
    (*shared_)(data, onto);
  } else {
    messages_(data, onto);
  }
}

bool AllReduce::is_shared(std::size_t floats) const {
  const auto size_class = static_cast<std::size_t>(std::bit_width(floats * sizeof(float)));
  return shared_is_faster_[std::min(size_class, kSizeClasses - 1)];
}

// What is larger than 4 MiB goes the same way as that.
void AllReduce::measure() {
  constexpr std::size_t kSmallest = 6;  // 32 bytes
  constexpr double kClearly = 1.2;  // a busy host disturbs what is measured, and messages are rarely faster
  for (std::size_t size_class = kSmallest; size_class < kSizeClasses; ++size_class) {
    // In the middle of the class: bit_width of [2^(c-1), 2^c) bytes is c.
    std::vector<float> data((std::size_t{3} << (size_class - 2)) / sizeof(float));
    const double by_messages = seconds_of(data, false);
    shared_is_faster_[size_class] = seconds_of(data, true) < kClearly * by_messages;
  }
  std::fill_n(shared_is_faster_, kSmallest, shared_is_faster_[kSmallest]);
}

// Of the slowest rank, in the fastest of a few calls, so that a rank that was interrupted does not decide. As
// blocks call it: the sum is added to something.
double AllReduce::seconds_of(std::span<float> data, bool shared) {
  constexpr int kTries = 5;
  std::vector<float> onto(data.size());
  double best = 1e9;
  for (int i = 0; i < kTries; ++i) {
    exchange_.all_values(0, kManner);
    const Stopwatch watch;
    if (shared) {
      (*shared_)(data, onto.data());
    } else {
      messages_(data, onto.data());
    }
    best = std::min(best, watch.seconds());
  }
  return std::ranges::max(exchange_.all_values(best, kManner));
}

}  // namespace tp
