#include "launch/ranks/command_line.h"

#include "parallel/exchange/archive.h"
#include "parallel/exchange/fail_together.h"
#include "tp/internal/require.h"
#include "tp/version.h"

#include <set>

#include <boost/serialization/map.hpp>
#include <boost/serialization/string.hpp>
#include <fmt/ranges.h>

namespace tp {
namespace {

const std::set<std::string> kMayDiffer = {"--model", "--synthetic", "--threads", "--trace"};

void add_options(const CLI::App& command, std::map<std::string, std::string>& options) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || kMayDiffer.contains(option->get_name())) continue;
    options[option->get_name()] = fmt::format("{}", fmt::join(option->reduced_results(), " "));
  }
  // Groups of options are nameless subcommands.
  for (const CLI::App* group :
       command.get_subcommands([](const CLI::App* app) { return app->get_name().empty(); }))
    add_options(*group, options);
}

// Returns a value for an error message.
std::string shown_option(const std::map<std::string, std::string>& options, const std::string& name) {
  constexpr std::size_t kLongest = 60;
  const auto found = options.find(name);
  if (found == options.end()) return "not given";
  if (found->second.size() <= kLongest) return found->second;
  return found->second.substr(0, kLongest) + "...";
}

// The message from rank 0.
struct Sent {
  std::string build;
  CommandLine line;

  template <class Archive>
  void serialize(Archive& archive, unsigned /*version*/) {
    archive& build& line.subcommand& line.options;
  }
};

void compare(const Sent& first, const Sent& own) {
  constexpr const char* kAdvice = "start all ranks with one command line";
  require<ConfigError>(
      own.build == first.build,
      "all ranks must run the same program, found tp-infer {} and, on rank 0, {}; install one "
      "build on every host",
      own.build, first.build);
  require<ConfigError>(own.line.subcommand == first.line.subcommand,
                       "all ranks must run the same subcommand, found {} and, on rank 0, {}; {}",
                       own.line.subcommand, first.line.subcommand, kAdvice);
  std::map<std::string, std::string> names = own.line.options;
  names.insert(first.line.options.begin(), first.line.options.end());
  for (const auto& [name, value] : names) {
    const std::string here = shown_option(own.line.options, name);
    const std::string there = shown_option(first.line.options, name);
    require<ConfigError>(here == there,
                         "all ranks must have the same options, found {} {} and, on rank 0, {}; {}", name,
                         here, there, kAdvice);
  }
}

}  // namespace

CommandLine CommandLine::of(const CLI::App& command) {
  CommandLine line{command.get_name(), {}, UsedFiles::of(command)};
  add_options(command, line.options);
  return line;
}

void require_same_command_line(Communicator& comm, const CommandLine& own) {
  const Sent here{build_text(), own};
  Sent first = here;
  broadcast_object(comm, first);
  fail_together(comm, [&] { compare(first, here); });
}

}  // namespace tp
