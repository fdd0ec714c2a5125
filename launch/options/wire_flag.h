// --wire: how sums are sent from host to host.
#pragma once

#include "tp/wire_type.h"

#include <CLI/CLI.hpp>

namespace tp {

// Adds it to a subcommand, which `type` outlives.
void add_wire_option(CLI::App& command, WireType& type);

}  // namespace tp
