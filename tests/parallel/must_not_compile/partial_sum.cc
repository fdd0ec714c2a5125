// Operations on a PartialSum: allowed ones, and forbidden ones that are compiled one at a time.
#include "parallel/shard/partial_sum.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/streams.h"
#include "model/layers/blocks/hyper_connection.h"
#include "model/layers/blocks/residual.h"
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

// The halves of a block with several streams.
void use(Residual& streams, const HyperConnection& connection, TensorView<float> memory) {
  streams.through(connection, [&](TensorView<const float>) { return make_addend(memory); });
#ifdef LEAVE_WITH_A_PARTIAL_SUM
  connection.leave(make_addend(memory), {}, memory);
#endif
#ifdef ADD_TO_STREAMS
  kernels::add_to_streams(memory, make_addend(memory), memory);
#endif
#ifdef RETURN_A_TENSOR_FROM_A_HALF
  streams.through(connection, [&](TensorView<const float>) { return memory; });
#endif
}

}  // namespace tp
