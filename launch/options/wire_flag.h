// --wire: the type in which sums are sent between hosts.
#pragma once

#include "tp/wire_type.h"

#include <CLI/CLI.hpp>

namespace tp {

// Adds the option to a subcommand. `type` must outlive it.
void add_wire_option(CLI::App& command, WireType& type);

}  // namespace tp
