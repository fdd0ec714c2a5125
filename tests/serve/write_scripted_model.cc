// write_scripted_model FOLDER: the model of the tests of tools, for tests that are not in C++.
#include "tests/serve/scripted_model.h"

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "write_scripted_model FOLDER\n";
    return 2;
  }
  tp::test::write_scripted_model(argv[1], tp::test::tool_scripts());
  return 0;
}
