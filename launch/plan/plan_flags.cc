#include "launch/plan/plan_flags.h"

#include "launch/common/option_group.h"
#include "model/files/split_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

struct Prefix {
  std::string_view letter;
  double decimal;
  double binary;
};

constexpr std::array<Prefix, 4> kLarge = {
    {{"T", 1e12, 1099511627776.0}, {"G", 1e9, 1073741824.0}, {"M", 1e6, 1048576.0}, {"K", 1e3, 1024.0}}};

constexpr double kMin = 1e-12;  // bounds that no machine exceeds
constexpr double kMax = 1e18;

// "expected a number from 1e-12 to 1e18 bytes with a unit, such as 256G"
std::string expected_quantity(const std::string& measure, const std::string& example) {
  return fmt::format("expected a number from {:g} to {:g} {} with a unit, such as {}", kMin, kMax, measure,
                     example);
}

std::string shown(std::string_view text) { return text.empty() ? "an empty text" : std::string(text); }

std::optional<double> parse_time(std::string_view text) { return parse_quantity(text, "s"); }
// A network rate is in bits, except with a capital B at its end.
std::optional<double> parse_rate(std::string_view text) {
  if (const auto bytes = parse_quantity(text, "B/s")) return bytes;
  for (const std::string_view unit : {"b/s", "bps", "bit/s", "bit", "b"}) {
    if (const auto bits = parse_quantity(text, unit)) return *bits / 8.0;
  }
  return std::nullopt;
}
std::optional<double> parse_bandwidth(std::string_view text) {
  const auto bytes = parse_quantity(text, "B/s");
  return bytes ? bytes : parse_quantity(text, "");
}
std::optional<double> parse_flops(std::string_view text) {
  for (const std::string_view unit : {"flop/s", "FLOP/s", "flops", "FLOPS"}) {
    if (const auto flops = parse_quantity(text, unit)) return flops;
  }
  return parse_quantity(text, "");
}
std::optional<double> parse_memory(std::string_view text) {
  for (const std::string_view unit : {"iB", "B"}) {
    if (const auto bytes = parse_quantity(text, unit, true)) return bytes;
  }
  return parse_quantity(text, "", true);
}

// A part of --net.
struct NetPart {
  const char* name;
  const char* measure;
  const char* example;
  std::optional<double> (*parse)(std::string_view);
  double Cluster::*place;
};

constexpr std::array<NetPart, 3> kNetParts = {
    {{"latency", "seconds", "30us", parse_time, &Cluster::latency},
     {"rate", "bytes per second", "10Gb", parse_rate, &Cluster::rate},
     {"time per message", "seconds", "5us", parse_time, &Cluster::message}}};

// Reads latency, rate and an optional cost per message. Returns the error, if any.
std::string take_net(std::string_view text, Cluster& cluster) {
  constexpr const char* kOrder =
      "latency, rate and, optionally, time per message, in this order, such as 30us,10Gb,5us";
  const std::vector<std::string_view> parts = split_text(text, ',');
  if (parts.size() != 2 && parts.size() != 3)
    return fmt::format("expected {}, found {} part{}: {}", kOrder, parts.size(), parts.size() == 1 ? "" : "s",
                       shown(text));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const NetPart& part = kNetParts[i];
    const std::optional<double> value = part.parse(parts[i]);
    if (!value)
      return fmt::format("expected {}; for the {}, {}, found {}", kOrder, part.name,
                         expected_quantity(part.measure, part.example), shown(parts[i]));
    cluster.*part.place = *value;
  }
  return {};
}

// Adds an option whose text `take` reads. `take` returns the error, if any.
void add_quantity(CLI::App& command, const std::string& name, const std::string& what,
                  const std::string& example, const std::string& standard,
                  const std::function<std::string(std::string_view)>& take) {
  const auto check = [=](const std::string& text) -> std::string { return take(text); };
  OptionGroup(command)
      .add(
          name, [](const std::string&) {}, example, CLI::Validator(check, ""), what)
      ->default_str(standard);
}

// Returns "1.5G" for 1.5e9, with three digits.
std::string with_prefix(double value) {
  for (const Prefix& prefix : kLarge) {
    if (value >= 0.9995 * prefix.decimal)
      return fmt::format("{:.3g}{}", value / prefix.decimal, prefix.letter);
  }
  return fmt::format("{:.3g}", value);
}

std::string seconds_text(double seconds) {
  if (seconds >= 0.9995) return fmt::format("{:.3g}s", seconds);
  if (seconds >= 0.9995e-3) return fmt::format("{:.3g}ms", 1e3 * seconds);
  return fmt::format("{:.3g}us", 1e6 * seconds);
}

// Returns the factor of a unit's prefix, as in "Gb" or "us". A plain number has no unit.
std::optional<double> factor_of(std::string_view text, std::string_view unit, bool binary) {
  if (text == unit && !text.empty()) return 1.0;
  if (unit == "s")
    return text == "ms" ? std::optional(1e-3) : text == "us" ? std::optional(1e-6) : std::nullopt;
  for (const Prefix& prefix : kLarge) {
    if (text.starts_with(prefix.letter) && text.substr(1) == unit)
      return binary ? prefix.binary : prefix.decimal;
  }
  return std::nullopt;
}

}  // namespace

std::optional<double> parse_quantity(std::string_view text, std::string_view unit, bool binary) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const std::optional<double> factor = factor_of(rest, unit, binary);
  if (error != std::errc() || !factor) return std::nullopt;
  value *= *factor;
  return value >= kMin && value <= kMax ? std::optional(value) : std::nullopt;
}

void add_cluster_options(CLI::App& command, Cluster& cluster) {
  OptionGroup(command).add("--ranks-per-host", cluster.ranks_per_host, "N", whole_number(1, 1024),
                           "Ranks on each host, usually one per socket");
  const auto into = [](auto& place, std::optional<double> (*parse)(std::string_view), const char* measure,
                       const char* example) {
    return [=, &place](std::string_view text) -> std::string {
      const std::optional<double> value = parse(text);
      if (!value) return fmt::format("{}, found {}", expected_quantity(measure, example), shown(text));
      place = static_cast<std::remove_reference_t<decltype(place)>>(*value);
      return {};
    };
  };
  add_quantity(command, "--memory", "Memory of a host that the ranks may use", "256G", "256G",
               into(cluster.memory, parse_memory, "bytes", "256G"));
  add_quantity(command, "--bandwidth",
               "Rate at which a host's ranks read weights, about 0.85 of its memory bandwidth", "200GB/s",
               "200GB/s", into(cluster.bandwidth, parse_bandwidth, "bytes per second", "200GB/s"));
  add_quantity(command, "--flops",
               "Operations per second that a host's ranks reach in matrix products of many tokens", "2T",
               "2T", into(cluster.flops, parse_flops, "operations per second", "2T"));
  add_quantity(command, "--net",
               "Network between hosts: latency of a short message, rate in each direction, and the extra "
               "time for each additional simultaneous message",
               "30us,10Gb,5us", "30us,10Gb,5us",
               [&cluster](std::string_view text) { return take_net(text, cluster); });
}

std::string net_text(const Cluster& cluster) {
  return fmt::format("{},{}b,{}", seconds_text(cluster.latency), with_prefix(8.0 * cluster.rate),
                     seconds_text(cluster.message));
}

std::string cluster_flags(const Cluster& cluster) {
  return fmt::format("--ranks-per-host {} --memory {:.0f}M --bandwidth {}B/s --flops {} --net {}",
                     cluster.ranks_per_host, std::floor(static_cast<double>(cluster.memory) / 1048576.0),
                     with_prefix(cluster.bandwidth), with_prefix(cluster.flops), net_text(cluster));
}

}  // namespace tp
