#include "model/kernels/head_scan.h"

#include "model/kernels/simd/simd.h"

#include <algorithm>

namespace tp::kernels {
namespace {

constexpr std::size_t kBlock = ScanScratch::kBlock;

// Copies a row of `count` floats, padded with zeros.
void pad(const float* from, std::size_t count, float* to) {
  std::copy_n(from, count, to);
  std::fill(to + count, to + padded(count), 0.0F);
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
    for (std::size_t i = 0; i < tokens.size(); ++i) keys_[since_ + i] = padded_key(i);
  }

  void multiply() const {
    for (std::size_t first = 0; first < tokens_.size(); first += kBlock)
      multiply_block(first, std::min(kBlock, tokens_.size() - first));
  }

 private:
  std::size_t row(std::size_t i) const { return run_.first_token + tokens_.begin + i; }

  const float* padded_key(std::size_t i) const {
    float* const key = scratch_.keys + i * scratch_.key_stride;
    pad(rule_.key.row(row(i)) + column_, rule_.shape.key_dim, key);
    return key;
  }

  void multiply_block(std::size_t first, std::size_t count) const {
    const std::size_t per_token = rows_per_token(rule_);
    for (std::size_t i = 0; i < count; ++i) {
      if (first + kBlock + i < tokens_.size())
        prefetch(rule_.query.row(row(first + kBlock + i)) + column_, rule_.shape.key_dim);
      float* rows = scratch_.rows + i * per_token * scratch_.key_stride;
      if (rule_.corrects) rows = std::copy_n(keys_[since_ + first + i], scratch_.key_stride, rows);
      pad(rule_.query.row(row(first + i)) + column_, rule_.shape.key_dim, rows);
    }
    simd().scan_dots({.keys = keys_.data(),
                      .count = since_ + first + count,
                      .size = scratch_.key_stride,
                      .rows = scratch_.rows,
                      .stride = scratch_.key_stride,
                      .num_rows = per_token * count,
                      .out = scratch_.weights,
                      .out_stride = kAnchorTokens});
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t floats = per_token * kAnchorTokens;
      std::copy_n(scratch_.weights + i * floats, floats, rule_.dots.row(row(first + i)) + key_head_ * floats);
    }
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
  decays = take(shape.decays_rows ? kAnchorTokens * key_stride : 0);
  faded_keys = take(kAnchorTokens * key_stride);
  row_decay = take(key_stride);
  rows = take(2 * kBlock * key_stride);
  weights = take(2 * kBlock * kAnchorTokens);
  products = take(2 * kBlock * shape.value_stride());
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
  for (std::size_t i = 0; i < kKeptTokens; ++i) additions_[i] = addition(run.state, i);
  additions_[kKeptTokens] = scratch.last_addition;
  for (std::size_t i = 0; i < since_; ++i) {
    keys_[i] = run.state + shape_.keys(key_head_) + i * shape_.key_stride();
    decays_[i] = run.state + shape_.decays_of(head) + i * shape_.decay_stride();
  }
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
    const std::size_t count = std::min({tokens.size(), kBlock, kAnchorTokens - since_});
    advance_block(run_.first_token + tokens.begin, count);
    tokens.begin += count;
    if (since_ == kAnchorTokens) move_anchor();
  }
}

void HeadScan::advance_block(std::size_t row, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) take_token(row + i, i);
  for (std::size_t i = 0; i < count; ++i) shape_.decays_rows ? weigh_rows(row + i, i) : weigh(row + i, i);
  multiply(count);
  for (std::size_t i = 0; i < count; ++i) add_token(row + i, i);
  since_ += count;
}

// Fetches a token of the next block.
void HeadScan::fetch(std::size_t row) const {
  if (row >= run_.first_token + run_.tokens) return;
  prefetch(rule_.key.row(row) + key_head_ * shape_.key_dim, shape_.key_dim);
  prefetch(rule_.query.row(row) + key_head_ * shape_.key_dim, shape_.key_dim);
  prefetch(rule_.value.row(row) + head_ * shape_.value_dim + columns_.begin, columns_.size());
}

void HeadScan::take_token(std::size_t row, std::size_t i) {
  fetch(row + kBlock);
  const std::size_t place = since_ + i;
  keys_[place] = rule_.key.row(row) + key_head_ * shape_.key_dim;
  decays_[place] = rule_.decay.row(row) + head_ * shape_.decays();
  if (!shape_.decays_rows) return;
  const std::size_t offset = place * scratch_.key_stride;
  pad(keys_[place], shape_.key_dim, scratch_.keys + offset);
  pad(decays_[place], shape_.key_dim, scratch_.decays + offset);
  keys_[place] = scratch_.keys + offset;
  decays_[place] = scratch_.decays + offset;
}

// The weights of additions for a token, from the products of keys. The token's key and query fade by all
// decays since the anchor.
void HeadScan::weigh(std::size_t row, std::size_t i) const {
  const std::size_t rows = rows_per_token(rule_);
  const float* const dots = rule_.dots.row(row) + key_head_ * rows * kAnchorTokens;
  float* const weights = scratch_.weights + i * rows * kAnchorTokens;
  std::array<float, kAnchorTokens> fades;
  float decay = 1.0F;
  for (std::size_t k = since_ + i + 1; k-- > 0; decay *= *decays_[k]) fades[k] = decay;
  for (std::size_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (std::size_t k = 0; k <= since_ + i; ++k)
      weights[r * kAnchorTokens + k] = dots[r * kAnchorTokens + k] * fades[k];
  }
  float* faded = scratch_.rows + i * rows * scratch_.key_stride;
  const auto fade = [&](const float* from) {
#pragma omp simd
    for (std::size_t j = 0; j < shape_.key_dim; ++j) faded[j] = from[j] * decay;
    faded += scratch_.key_stride;
  };
  if (rule_.corrects) fade(keys_[since_ + i]);
  fade(rule_.query.row(row) + key_head_ * shape_.key_dim);
}

// Weights where each row of the matrix has its own decay, so that products of keys include decays.
void HeadScan::weigh_rows(std::size_t row, std::size_t i) const {
  const std::size_t place = since_ + i;
  float* const rows = scratch_.rows + 2 * i * scratch_.key_stride;
  std::copy_n(keys_[place], scratch_.key_stride, rows);
  pad(rule_.query.row(row) + key_head_ * shape_.key_dim, shape_.key_dim, rows + scratch_.key_stride);
  simd().scan_faded_dots({.keys = keys_.data(),
                          .count = place + 1,
                          .size = scratch_.key_stride,
                          .rows = rows,
                          .stride = scratch_.key_stride,
                          .num_rows = 2,
                          .out = scratch_.weights + 2 * i * kAnchorTokens,
                          .out_stride = kAnchorTokens},
                         decays_.data());
}

// The matrix and then the additions of earlier blocks, by the tokens' rows and weights.
void HeadScan::multiply(std::size_t count) const {
  ScanProducts products{.left = scratch_.rows,
                        .left_stride = scratch_.key_stride,
                        .rows = rows_per_token(rule_) * count,
                        .inner = shape_.key_dim,
                        .right = matrix(run_.state),
                        .right_stride = shape_.value_stride(),
                        .columns = stored_columns(),
                        .out = scratch_.products,
                        .out_stride = shape_.value_stride(),
                        .adds = false};
  simd().scan_products(products);
  products.left = scratch_.weights;
  products.left_stride = kAnchorTokens;
  products.inner = since_;
  products.right = additions_[0];
  products.adds = true;
  simd().scan_products(products);
}

void HeadScan::add_token(std::size_t row, std::size_t i) const {
  const std::size_t last = rows_per_token(rule_) - 1;  // row of the query
  const std::size_t value = head_ * shape_.value_dim + columns_.begin;
  const float* const weights = scratch_.weights + i * (last + 1) * kAnchorTokens;
  const float* const products = scratch_.products + i * (last + 1) * shape_.value_stride();
  simd().scan_token({.known = rule_.corrects ? products : nullptr,
                     .seen = products + last * shape_.value_stride(),
                     .known_weights = weights + since_,
                     .seen_weights = weights + last * kAnchorTokens + since_,
                     .additions = additions_.data() + since_,
                     .tokens = i,
                     .value = rule_.value.row(row) + value,
                     .strength = rule_.strength.row(row)[head_],
                     .columns = columns_.size(),
                     .out = rule_.out.row(row) + value});
}

// Keys with the decays between their tokens and the anchor, and all decays.
void HeadScan::fade_keys() const {
  float* const decay = scratch_.row_decay;
  std::fill_n(decay, shape_.key_dim, 1.0F);
  for (std::size_t i = kAnchorTokens; i-- > 0;) {
    float* const faded = scratch_.faded_keys + i * scratch_.key_stride;
    const float* const own = decays_[i];
    const bool is_one = !shape_.decays_rows;
#pragma omp simd
    for (std::size_t j = 0; j < shape_.key_dim; ++j) faded[j] = keys_[i][j] * decay[j];
#pragma omp simd
    for (std::size_t j = 0; j < shape_.key_dim; ++j) decay[j] *= own[is_one ? 0 : j];
  }
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
