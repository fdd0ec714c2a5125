// write_scripted_model FOLDER [SCRIPTS]: writes a model that follows scripts, for tests that are not in C++.
// SCRIPTS is a file in JSON. Without it, the model is the one of the tests of tools.
#include "tests/serve/scripted_model.h"

#include <fstream>
#include <iostream>

#include <nlohmann/json.hpp>

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::cerr << "write_scripted_model FOLDER [SCRIPTS]\n";
    return 2;
  }
  tp::test::Scripts scripts = tp::test::tool_scripts();
  if (argc == 3) {
    std::ifstream file(argv[2]);
    scripts = nlohmann::json::parse(file).get<tp::test::Scripts>();
  }
  tp::test::write_scripted_model(argv[1], scripts);
  return 0;
}
