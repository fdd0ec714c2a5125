// For tests that mpirun starts on several ranks; main() is in mpi_test_main.cc.
#pragma once

#include "tp/communicator.h"

namespace tp::test {

// All ranks of the test, with fresh counts: one communicator for all tests of a program.
Communicator& world();

}  // namespace tp::test
