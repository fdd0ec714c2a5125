#include "launch/options/wire_flag.h"

#include "launch/common/option_group.h"

#include <string>

namespace tp {

void add_wire_option(CLI::App& command, WireType& type) {
  OptionGroup(command).add_choice(
      "--wire", [&type](const std::string& name) { type = find_wire_type(name).value_or(WireType::f32); },
      "TYPE", {"f32", "bf16", "int8"}, "Type in which hosts exchange sums: f32, or rounded to bf16 or int8");
}

}  // namespace tp
