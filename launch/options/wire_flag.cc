#include "launch/options/wire_flag.h"

#include "launch/common/option_checks.h"

#include <string>

namespace tp {

void add_wire_option(CLI::App& command, WireType& type) {
  command
      .add_option_function<std::string>(
          "--wire", [&type](const std::string& name) { type = find_wire_type(name).value_or(WireType::f32); },
          "Type in which hosts exchange sums: f32, or rounded to bf16 or int8")
      ->check(one_of({"f32", "bf16", "int8"}))
      ->type_name("TYPE")
      ->default_str("f32");
}

}  // namespace tp
