// For tests that mpirun starts on several ranks; main() is in mpi_test_main.cc.
#pragma once

#include "tp/communicator.h"

namespace tp::test {

// Returns all ranks of the test, with fresh counts. All tests of a program share this communicator.
Communicator& world();

}  // namespace tp::test
