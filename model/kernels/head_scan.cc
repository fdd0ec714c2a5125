#include "model/kernels/head_scan.h"

#include "model/kernels/simd/simd.h"

#include <algorithm>

namespace tp::kernels {
namespace {

static_assert(kAnchorTokens == kScanTokens);

// Copies a row of `count` floats, padded with zeros.
const float* pad(const float* from, std::size_t count, float* to) {
  std::copy_n(from, count, to);
  std::fill(to + count, to + padded(count), 0.0F);
  return to;
}

// The rows of a head are far apart, so processors don't foresee them.
void prefetch(const float* row, std::size_t count) {
  constexpr std::size_t kLine = 16;  // floats
  for (std::size_t i = 0; i < count; i += kLine) __builtin_prefetch(row + i);
}

// A key's and a query's row for each token, or only a query's without corrections.
std::size_t rows_per_token(const DeltaRule& rule) { return rule.corrects ? 2 : 1; }

// The tokens of a run between two anchors, for the products of keys.
class KeyChunk {
 public:
  KeyChunk(const DeltaRule& rule, const RecurrentRun& run, std::size_t key_head, const ScanScratch& scratch,
           Stretch tokens)
      : rule_(rule),
        run_(run),
        column_(key_head * rule.shape.key_dim),
        key_head_(key_head),
        scratch_(scratch),
        tokens_(tokens),
        since_((run.position + tokens.begin) % kAnchorTokens) {
    for (std::size_t i = 0; i < since_; ++i)
      keys_[i] = run.state + rule.shape.keys(key_head) + i * scratch.key_stride;
    for (std::size_t i = 0; i < tokens.size(); ++i)
      keys_[since_ + i] = head_row(rule.key, i, scratch.keys + i * scratch.key_stride);
  }

  void multiply() const {
    const std::size_t per_token = rows_per_token(rule_);
    std::array<const float*, 2 * kAnchorTokens> rows;
    std::array<float*, 2 * kAnchorTokens> out;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      prefetch_next_query(i);
      const std::size_t query = (i + 1) * per_token - 1;
      rows[i * per_token] = keys_[since_ + i];
      rows[query] = head_row(rule_.query, i, scratch_.rows + i * scratch_.key_stride);
      out[query] = rule_.dots.row(row(i)) + ((key_head_ + 1) * per_token - 1) * kAnchorTokens;
      out[i * per_token] = rule_.dots.row(row(i)) + key_head_ * per_token * kAnchorTokens;
    }
    simd().scan_dots({.keys = keys_.data(),
                      .count = since_ + tokens_.size(),
                      .rows_per_key = per_token,
                      .size = scratch_.key_stride,
                      .rows = rows.data(),
                      .num_rows = per_token * tokens_.size(),
                      .out = out.data()});
  }

 private:
  std::size_t row(std::size_t i) const { return run_.first_token + tokens_.begin + i; }

  const float* head_row(TensorView<const float> batch, std::size_t i, float* copy) const {
    return pad(batch.row(row(i)) + column_, rule_.shape.key_dim, copy);
  }

  // Fetches the query of the next chunk's token `i`.
  void prefetch_next_query(std::size_t i) const {
    const std::size_t next = tokens_.end + i;
    if (next < run_.tokens) prefetch(rule_.query.row(run_.first_token + next) + column_, rule_.shape.key_dim);
  }

  const DeltaRule& rule_;
  const RecurrentRun& run_;
  std::size_t column_;
  std::size_t key_head_;
  const ScanScratch& scratch_;
  Stretch tokens_;
  std::size_t since_;  // tokens between the anchor and the chunk
  std::array<const float*, kAnchorTokens> keys_{};
};

}  // namespace

ScanScratch::ScanScratch(const DeltaShape& shape, float* memory) : key_stride(shape.key_stride()) {
  const auto take = [&](std::size_t count) {
    float* const taken = memory == nullptr ? nullptr : memory + floats;
    floats += count;
    return taken;
  };
  keys = take(kAnchorTokens * key_stride);
  decays = take(kAnchorTokens * shape.decay_stride());
  faded_keys = take(kAnchorTokens * key_stride);
  row_decay = take(key_stride);
  rows = take(2 * kAnchorTokens * key_stride);
  weights = take(2 * kAnchorTokens * kAnchorTokens);
  last_addition = take(shape.value_stride());
}

void multiply_keys(const DeltaRule& rule, const RecurrentRun& run, std::size_t key_head,
                   const ScanScratch& scratch) {
  for (std::size_t begin = 0; begin < run.tokens;) {
    const std::size_t left = kAnchorTokens - (run.position + begin) % kAnchorTokens;
    const std::size_t end = std::min(run.tokens, begin + left);
    KeyChunk(rule, run, key_head, scratch, {begin, end}).multiply();
    begin = end;
  }
}

HeadScan::HeadScan(const DeltaRule& rule, const RecurrentRun& run, std::size_t head, Stretch columns,
                   const ScanScratch& scratch)
    : rule_(rule),
      shape_(rule.shape),
      run_(run),
      head_(head),
      key_head_(rule.key_of_head[head]),
      columns_(columns),
      scratch_(scratch),
      since_(run.position % kAnchorTokens) {
  const float* const keys = run.state + shape_.keys(key_head_);
  const float* const decays = run.state + shape_.decays_of(head);
  for (std::size_t i = 0; i < since_; ++i) {
    keys_[i] = keys + i * shape_.key_stride();
    decays_[i] = decays + i * shape_.decay_stride();
    additions_[i] = addition(run.state, i);
  }
  if (!shape_.decays_rows) std::copy_n(decays, since_, scratch.decays);
}

void HeadScan::run() {
  if (run_.begins()) clear();
  std::size_t done = 0;
  for (const StateCopy& copy : run_.copies) {
    advance({done, copy.tokens});
    copy_to(copy.state);
    done = copy.tokens;
  }
  advance({done, run_.tokens});
}

void HeadScan::clear() const {
  for (std::size_t row = 0; row < shape_.key_dim; ++row)
    std::fill_n(matrix(run_.state) + row * shape_.value_stride(), stored_columns(), 0.0F);
}

void HeadScan::copy_to(float* state) const {
  for (std::size_t row = 0; row < shape_.key_dim; ++row) {
    const std::size_t offset = row * shape_.value_stride();
    std::copy_n(matrix(run_.state) + offset, stored_columns(), matrix(state) + offset);
  }
  for (std::size_t i = 0; i < since_; ++i) std::copy_n(additions_[i], stored_columns(), addition(state, i));
}

void HeadScan::advance(Stretch tokens) {
  while (tokens.begin < tokens.end) {
    const std::size_t count = std::min(tokens.size(), kAnchorTokens - since_);
    advance_block(run_.first_token + tokens.begin, count);
    tokens.begin += count;
    if (since_ == kAnchorTokens) move_anchor();
  }
}

void HeadScan::advance_block(std::size_t row, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) take_token(row + i, i);
  if (shape_.decays_rows) {
    weigh_rows(row, count);
  } else {
    for (std::size_t i = 0; i < count; ++i) weigh(row + i, i);
  }
  compute(row, count);
  since_ += count;
}

// The rows of a token of the next block.
std::size_t HeadScan::next_rows(std::size_t row, ScanRow* rows) const {
  if (row >= run_.first_token + run_.tokens) return 0;
  const std::size_t key = key_head_ * shape_.key_dim;
  const std::size_t value = head_ * shape_.value_dim + columns_.begin;
  ScanRow* last = rows;
  *last++ = {rule_.key.row(row) + key, shape_.key_dim};
  *last++ = {rule_.query.row(row) + key, shape_.key_dim};
  *last++ = {rule_.value.row(row) + value, columns_.size()};
  *last++ = {rule_.out.row(row) + value, columns_.size()};
  if (shape_.decays_rows) *last++ = {rule_.decay.row(row) + head_ * shape_.decays(), shape_.key_dim};
  return static_cast<std::size_t>(last - rows);
}

void HeadScan::take_token(std::size_t row, std::size_t i) {
  const std::size_t place = since_ + i;
  additions_[place] = place == kKeptTokens ? scratch_.last_addition : addition(run_.state, place);
  keys_[place] = rule_.key.row(row) + key_head_ * shape_.key_dim;
  decays_[place] = rule_.decay.row(row) + head_ * shape_.decays();
  if (shape_.decays_rows) {
    const std::size_t offset = place * scratch_.key_stride;
    keys_[place] = pad(keys_[place], shape_.key_dim, scratch_.keys + offset);
    decays_[place] = pad(decays_[place], shape_.key_dim, scratch_.decays + offset);
  } else {
    scratch_.decays[place] = *decays_[place];
  }
}

// The weights of additions for a token, from the products of keys.
void HeadScan::weigh(std::size_t row, std::size_t i) const {
  const std::size_t num_rows = rows_per_token(rule_);
  const std::array<const float*, 2> rows = {keys_[since_ + i],
                                            rule_.query.row(row) + key_head_ * shape_.key_dim};
  simd().scan_weights({.token = since_ + i,
                       .decays = scratch_.decays,
                       .num_rows = num_rows,
                       .dots = rule_.dots.row(row) + key_head_ * num_rows * kAnchorTokens,
                       .weights = scratch_.weights + i * num_rows * kAnchorTokens,
                       .rows = rows.data() + 2 - num_rows,
                       .size = shape_.key_dim,
                       .faded_rows = scratch_.rows + i * num_rows * scratch_.key_stride,
                       .stride = scratch_.key_stride});
}

// Weights where each row of the matrix has its own decay, so that products of keys include decays. Then the
// rows have the decays since the anchor.
void HeadScan::weigh_rows(std::size_t row, std::size_t count) const {
  for (std::size_t i = 0; i < count; ++i) {
    float* const rows = scratch_.rows + 2 * i * scratch_.key_stride;
    float* const query = std::copy_n(keys_[since_ + i], scratch_.key_stride, rows);
    pad(rule_.query.row(row + i) + key_head_ * shape_.key_dim, shape_.key_dim, query);
    simd().scan_faded_dots({.keys = keys_.data(),
                            .decays = decays_.data(),
                            .count = since_ + i + 1,
                            .size = scratch_.key_stride,
                            .rows = rows,
                            .stride = scratch_.key_stride,
                            .out = scratch_.weights + 2 * i * kAnchorTokens,
                            .out_stride = kAnchorTokens});
  }
}

void HeadScan::compute(std::size_t row, std::size_t count) const {
  const std::size_t value = head_ * shape_.value_dim + columns_.begin;
  std::array<const float*, kAnchorTokens> values;
  std::array<float, kAnchorTokens> strengths;
  std::array<float*, kAnchorTokens> out;
  std::array<ScanRow, 5 * kAnchorTokens> next;
  std::size_t num_next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    num_next += next_rows(row + count + i, next.data() + num_next);
    values[i] = rule_.value.row(row + i) + value;
    strengths[i] = rule_.strength.row(row + i)[head_];
    out[i] = rule_.out.row(row + i) + value;
  }
  simd().scan_tokens({.rows = scratch_.rows,
                      .row_stride = scratch_.key_stride,
                      .inner = shape_.key_dim,
                      .matrix = matrix(run_.state),
                      .stride = shape_.value_stride(),
                      .stored_columns = stored_columns(),
                      .weights = scratch_.weights,
                      .since = since_,
                      .additions = additions_.data(),
                      .tokens = count,
                      .values = values.data(),
                      .strengths = strengths.data(),
                      .columns = columns_.size(),
                      .out = out.data(),
                      .corrects = rule_.corrects,
                      .next = next.data(),
                      .num_next = num_next});
}

// Keys with the decays between their tokens and the anchor, and all decays.
void HeadScan::fade_keys() const {
  if (shape_.decays_rows) {
    simd().scan_faded_keys({.keys = keys_.data(),
                            .decays = decays_.data(),
                            .count = kAnchorTokens,
                            .size = scratch_.key_stride,
                            .out = scratch_.faded_keys,
                            .stride = scratch_.key_stride,
                            .all_decays = scratch_.row_decay});
    return;
  }
  float decay = 1.0F;
  for (std::size_t i = kAnchorTokens; i-- > 0; decay *= scratch_.decays[i]) {
    float* const faded = scratch_.faded_keys + i * scratch_.key_stride;
#pragma omp simd
    for (std::size_t j = 0; j < shape_.key_dim; ++j) faded[j] = keys_[i][j] * decay;
  }
  std::fill_n(scratch_.row_decay, shape_.key_dim, decay);
}

void HeadScan::move_anchor() {
  fade_keys();
  simd().scan_anchor({.matrix = matrix(run_.state),
                      .stride = shape_.value_stride(),
                      .rows = shape_.key_dim,
                      .columns = stored_columns(),
                      .decay = scratch_.row_decay,
                      .keys = scratch_.faded_keys,
                      .key_stride = scratch_.key_stride,
                      .additions = additions_.data(),
                      .tokens = kAnchorTokens});
  since_ = 0;
}

}  // namespace tp::kernels
