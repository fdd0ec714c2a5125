// Checks of option values. CLI11 has such checks, too, but their messages are for programmers.
#pragma once

#include "tp/error.h"
#include "tp/memory_types.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace tp {

// An upper bound on token counts that leaves room for arithmetic.
constexpr std::uint64_t kMaxTokens = std::uint64_t{1} << 40;

// "expected a whole number from 1 to 1024, found 0"
CLI::Validator whole_number(std::uint64_t min, std::uint64_t max = kMaxTokens);

// "expected a number, found abc". SamplingParams::validate checks ranges.
CLI::Validator number();

inline constexpr double kMaxGigabytes = 1e9;
// A number of gigabytes: "5", "5G" or "5GB". Removes the unit.
CLI::Validator gigabytes();

// A number above 0 and up to `max`.
CLI::Validator amount(double max);

// "expected a file, found an empty value; is a variable unset?" `what` is "a file".
CLI::Validator not_empty(std::string what);

// "expected one of f32, f16, bf16, found f61; did you mean f16?"
CLI::Validator one_of(std::vector<std::string> words);

// Accepts the types to which weights can be converted, and auto.
CLI::Validator weight_type();

// Accepts all types in which weights can be generated, which includes all types of checkpoints.
// find_generated_type() returns the type with this name.
CLI::Validator generated_weight_type();
std::optional<WeightType> find_generated_type(const std::string& name);

// Rethrows errors of `settings.validate()` as CLI::ValidationError, because options set these settings.
template <class Settings>
void require_valid(const Settings& settings) {
  try {
    settings.validate();
  } catch (const RequestError& error) {
    throw CLI::ValidationError(error.what());
  }
}

}  // namespace tp
