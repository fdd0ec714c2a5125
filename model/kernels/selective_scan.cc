#include "model/kernels/selective_scan.h"

#include "model/kernels/simd/simd.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cassert>

namespace tp::kernels {
namespace {

// One block of channels of one run.
class BlockScan {
 public:
  BlockScan(const SelectiveScan& scan, const RecurrentRun& run, std::size_t block)
      : scan_(scan), run_(run), block_(block), floats_(scan.b.columns() * kScanChannels) {}

  void run() const {
    if (run_.begins()) std::fill_n(block_of(run_.state), floats_, 0.0F);
    std::size_t done = 0;
    for (const StateCopy& copy : run_.copies) {
      advance(done, copy.tokens);
      std::copy_n(block_of(run_.state), floats_, block_of(copy.state));
      done = copy.tokens;
    }
    advance(done, run_.tokens);
  }

 private:
  float* block_of(float* state) const { return state + block_ * floats_; }

  void advance(std::size_t begin, std::size_t end) const {
    if (begin == end) return;
    const std::size_t row = run_.first_token + begin;
    const std::size_t channel = block_ * kScanChannels;
    simd().scan_channels({.state = block_of(run_.state),
                          .rate = scan_.rate.data() + block_ * floats_,
                          .state_size = scan_.b.columns(),
                          .direct = scan_.direct.data() + channel,
                          .channels = std::min(kScanChannels, scan_.x.columns() - channel),
                          .tokens = end - begin,
                          .x = scan_.x.row(row) + channel,
                          .x_stride = scan_.x.stride(),
                          .step = scan_.step.row(row) + channel,
                          .step_stride = scan_.step.stride(),
                          .b = scan_.b.row(row),
                          .c = scan_.c.row(row),
                          .b_stride = scan_.b.stride(),
                          .c_stride = scan_.c.stride(),
                          .out = scan_.out.row(row) + channel,
                          .out_stride = scan_.out.stride()});
  }

  const SelectiveScan& scan_;
  const RecurrentRun& run_;
  std::size_t block_;
  std::size_t floats_;  // floats of a block's state
};

}  // namespace

void selective_scan(const SelectiveScan& scan, std::span<const RecurrentRun> runs) {
  assert(scan.x.columns() == scan.step.columns() && scan.b.columns() == scan.c.columns());
  assert(scan.rate.size() == selective_state_floats(scan.x.columns(), scan.b.columns()));
  if (scan.out.empty() || runs.empty()) return;
  const std::size_t blocks = padded(scan.x.columns()) / kScanChannels;
  constexpr std::size_t kWork = 8;  // approximate operations for each element of a state, with an exponential
  for_thread_parts(runs.size() * blocks, scan.out.size() * scan.b.columns() * kWork,
                   [&](std::size_t begin, std::size_t end) {
                     for (std::size_t i = begin; i < end; ++i)
                       BlockScan(scan, runs[i / blocks], i % blocks).run();
                   });
}

}  // namespace tp::kernels
