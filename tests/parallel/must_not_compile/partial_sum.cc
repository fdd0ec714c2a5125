// What may be done with a PartialSum, and, one at a time, what may not.
#include "parallel/shard/partial_sum.h"

#include "model/kernels/elementwise.h"
#include "parallel/exchange/collectives.h"

namespace tp {

PartialSum make_addend(TensorView<float> memory) { return PartialSum(memory); }

void use(Communicator& comm, TensorView<float> memory, TensorView<float> residual) {
  PartialSum sum = make_addend(memory);
#ifdef COPY
  PartialSum copy = sum;
#endif
#ifdef ASSIGN
  sum = make_addend(residual);
#endif
#ifdef READ_AS_A_TENSOR
  TensorView<float> tensor = sum;
#endif
#ifdef READ_THE_ADDEND
  TensorView<float> tensor = sum.floats_;
#endif
#ifdef PASS_TO_ADD
  kernels::add(sum, residual);
#endif
#ifdef REDUCE_WITHOUT_MOVE
  kernels::add(all_reduce(comm, sum), residual);
#endif
#ifdef IGNORE
  make_addend(memory);
#endif
  kernels::add(all_reduce(comm, std::move(sum)), residual);
}

}  // namespace tp
