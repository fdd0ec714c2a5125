// write_seeded_fixtures FROM TO: the build runs it once, so that tests only read the weights.
#include "tests/reference/seeded_weights.h"

#include <cstdio>
#include <exception>

int main(int argument_count, char** arguments) {
  if (argument_count != 3) {
    std::fprintf(stderr, "usage: write_seeded_fixtures FROM TO\n");
    return 2;
  }
  try {
    tp::reference::write_seeded_fixtures(arguments[1], arguments[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "write_seeded_fixtures: %s\n", error.what());
    return 1;
  }
}
