// For tests that mpirun starts on several ranks; main() is in mpi_test_main.cc.
#pragma once

#include "tp/communicator.h"

namespace tp::test {

// All ranks of the test, with fresh counts. Making a communicator takes a while, because it measures the ways
// to communicate; so there is one for all tests of a program.
Communicator& world();

}  // namespace tp::test
