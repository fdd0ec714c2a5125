// The recurrence of one head of a run, from anchor to anchor.
#pragma once

#include "model/kernels/delta_arguments.h"
#include "model/kernels/recurrent_run.h"
#include "model/kernels/simd/simd.h"

#include <array>
#include <cstddef>

namespace tp::kernels {

// [begin, end)
struct Stretch {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
};

// A thread's memory. Rows are padded to whole vectors.
struct ScanScratch {
  // `memory`: [floats], or null to count them.
  ScanScratch(const DeltaShape& shape, float* memory);

  std::size_t key_stride;
  float* keys;           // [kAnchorTokens, key_stride]
  float* decays;         // [kAnchorTokens, decay_stride]
  float* faded_keys;     // [kAnchorTokens, key_stride]
  float* row_decay;      // [key_stride]
  float* rows;           // [2 * kAnchorTokens, key_stride]: a key and a query for each token, with decays
  float* weights;        // [2 * kAnchorTokens, kAnchorTokens]: of additions in `known` and `seen`
  float* last_addition;  // [value_stride]: the one before an anchor, which no state keeps
  std::size_t floats = 0;
};

// Products of the keys and queries of a run's tokens with the keys since their anchor, for one key head. They
// have no decays, so all value heads that read the key head share them. Writes rule.dots.
void multiply_keys(const DeltaRule& rule, const RecurrentRun& run, std::size_t key_head,
                   const ScanScratch& scratch);

// One head of a run, in some columns of its values.
class HeadScan {
 public:
  HeadScan(const DeltaRule& rule, const RecurrentRun& run, std::size_t head, Stretch columns,
           const ScanScratch& scratch);

  // Writes the outputs, and the matrices and additions of all states.
  void run();

 private:
  float* matrix(float* state) const { return state + shape_.matrix(head_) + columns_.begin; }
  float* addition(float* state, std::size_t token) const {
    return state + shape_.additions(head_) + token * shape_.value_stride() + columns_.begin;
  }
  std::size_t stored_columns() const { return padded(columns_.size()); }

  void clear() const;
  void copy_to(float* state) const;
  void advance(Stretch tokens);
  void advance_block(std::size_t row, std::size_t count);
  std::size_t next_rows(std::size_t row, ScanRow* rows) const;
  void take_token(std::size_t row, std::size_t i);
  void weigh(std::size_t row, std::size_t i) const;
  void weigh_rows(std::size_t row, std::size_t count) const;
  void compute(std::size_t row, std::size_t count) const;
  void fade_keys() const;
  void move_anchor();

  const DeltaRule& rule_;
  const DeltaShape& shape_;
  const RecurrentRun& run_;
  std::size_t head_;
  std::size_t key_head_;
  Stretch columns_;
  const ScanScratch& scratch_;
  std::size_t since_;  // tokens since the anchor
  // Rows of the tokens since the anchor.
  std::array<const float*, kAnchorTokens> keys_{};
  std::array<const float*, kAnchorTokens> decays_{};
  std::array<float*, kAnchorTokens> additions_{};
};

}  // namespace tp::kernels
