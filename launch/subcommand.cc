#include "launch/subcommand.h"

#include <map>

namespace tp {
namespace {

// Registering takes place before main(), whichever file comes first.
std::map<Subcommand::Place, Subcommand::Add>& registered() {
  static std::map<Subcommand::Place, Subcommand::Add> all;
  return all;
}

}  // namespace

Subcommand::Subcommand(Place place, Add add) { registered().emplace(place, add); }

void Subcommand::add_all(CLI::App& app, int& status) {
  for (const auto& [place, add] : registered()) add(app, status);
}

}  // namespace tp
