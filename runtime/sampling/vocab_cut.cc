#include "runtime/sampling/vocab_cut.h"

#include "parallel/exchange/collectives.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <numeric>

namespace tp {
namespace {

constexpr std::size_t kBuckets = NucleusScale::kBuckets;
constexpr int kKeyBits = std::countr_zero(kBuckets);  // bits of a token's key that one division examines

// The order of more_likely as an integer: the more likely token has the lower key.
std::uint64_t key_of(Candidate token) {
  const auto bits = std::bit_cast<std::uint32_t>(token.logit + 0.0F);  // -0 and 0 are equally likely
  const std::uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return (std::uint64_t{~ascending} << 32) | static_cast<std::uint32_t>(token.id);
}

// The search for the last kept token of one row.
class Search {
 public:
  explicit Search(const Cut& cut) : part_(*cut.part), by_count_(cut.tokens > 0), cut_(cut) {}

  // Adds this rank's mass of every bucket to `masses`, [kBuckets]. The first call covers all tokens that
  // count; later calls cover the bucket that contains the end.
  void add_masses(std::span<double> masses) const;
  // Descends into the bucket that contains the end. `masses`: sums over all ranks.
  void enter_bucket(std::span<const double> masses);
  // This rank's tokens in the current bucket.
  std::vector<Candidate> boundary() const;
  // Ends the search. `boundary`: all ranks' tokens in the current bucket.
  void finish(std::vector<Candidate> boundary);

  bool done() const { return done_; }

 private:
  double mass(std::int32_t bucket, float weight) const {
    return by_count_ ? 1.0 : NucleusScale::mass(bucket, weight);
  }
  void add_first_masses(std::span<double> masses) const;
  bool in_bucket(Candidate token) const {
    return part_.counts(token) && part_.scale.bucket(token.logit) == bucket_ &&
           (divisions_ == 0 || key_of(token) >> shift() == prefix_);
  }
  // Shifting a key right by this leaves only the bits that the divisions so far have examined.
  int shift() const { return std::max(0, 64 - kKeyBits * divisions_); }
  int next_shift() const { return std::max(0, shift() - kKeyBits); }

  VocabPart& part_;
  bool by_count_;
  const Cut& cut_;
  bool begun_ = false;
  bool done_ = false;
  double target_ = 0.0;
  double before_ = 0.0;       // mass of the tokens that are more likely than the current bucket's
  std::int32_t bucket_ = 0;   // current bucket of the scale
  int divisions_ = 0;         // number of divisions of this bucket
  std::uint64_t prefix_ = 0;  // examined bits of the keys in the current bucket
};

void Search::add_masses(std::span<double> masses) const {
  if (!begun_) return add_first_masses(masses);
  const std::uint64_t mask = (std::uint64_t{1} << (shift() - next_shift())) - 1;
  for (const Candidate token : boundary()) {
    masses[(key_of(token) >> next_shift()) & mask] += mass(bucket_, part_.scale.weight(token.logit));
  }
}

// The only pass over whole shards that does more than compare. It works in pieces, so that weights and
// buckets are vectorized.
void Search::add_first_masses(std::span<double> masses) const {
  constexpr std::size_t kPiece = 512;
  std::array<float, kPiece> weights;
  std::array<std::int32_t, kPiece> buckets;
  for (std::size_t begin = 0; begin < part_.logits.size(); begin += kPiece) {
    const std::span<const float> logits =
        part_.logits.subspan(begin, std::min(kPiece, part_.logits.size() - begin));
    for (std::size_t i = 0; i < logits.size(); ++i) weights[i] = part_.scale.weight(logits[i]);
    for (std::size_t i = 0; i < logits.size(); ++i) buckets[i] = part_.scale.bucket(logits[i]);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (!part_.counts(part_.token(begin + i))) continue;
      masses[static_cast<std::size_t>(buckets[i])] += mass(buckets[i], weights[i]);
    }
  }
}

void Search::enter_bucket(std::span<const double> masses) {
  if (!begun_) {
    const double total = std::accumulate(masses.begin(), masses.end(), 0.0);
    target_ = by_count_ ? static_cast<double>(cut_.tokens) : cut_.share * total;
    // There are no more tokens than wanted, so all of them count.
    if (by_count_ && total <= target_) done_ = true;
  }
  const MassBucket found = find_bucket(masses, before_, target_);
  before_ = found.before;
  if (!begun_) {
    bucket_ = static_cast<std::int32_t>(found.index);
    begun_ = true;
    return;
  }
  const int looked_at = shift() - next_shift();
  ++divisions_;
  prefix_ = (prefix_ << looked_at) | found.index;
}

std::vector<Candidate> Search::boundary() const {
  std::vector<Candidate> tokens;
  for (std::size_t i = 0; i < part_.logits.size(); ++i) {
    const Candidate token = part_.token(i);
    if (in_bucket(token)) tokens.push_back(token);
  }
  return tokens;
}

void Search::finish(std::vector<Candidate> boundary) {
  std::sort(boundary.begin(), boundary.end(), more_likely);
  double sum = before_;
  for (const Candidate token : boundary) {
    sum += mass(bucket_, part_.scale.weight(token.logit));
    part_.last = token;  // the last token of the boundary if rounding keeps the sum below the target
    if (sum >= target_) break;
  }
  done_ = true;
}

// Lets all searches descend into the buckets that contain their ends.
void divide(Communicator& comm, std::span<Search*> searches) {
  std::vector<double> masses(searches.size() * kBuckets, 0.0);
  const auto masses_of = [&](std::size_t i) { return std::span(masses).subspan(i * kBuckets, kBuckets); };
  for (std::size_t i = 0; i < searches.size(); ++i) searches[i]->add_masses(masses_of(i));
  exchange_sum(comm, masses);
  for (std::size_t i = 0; i < searches.size(); ++i) searches[i]->enter_bucket(masses_of(i));
}

// Finishes the searches whose buckets have at most kMaxBoundary tokens.
void conclude(Communicator& comm, std::span<Search*> searches) {
  const std::size_t count = searches.size();
  std::vector<std::vector<Candidate>> own(count);
  std::vector<std::uint32_t> own_sizes(count);
  for (std::size_t i = 0; i < count; ++i) {
    own[i] = searches[i]->boundary();
    own_sizes[i] = static_cast<std::uint32_t>(own[i].size());
  }
  const std::vector<std::uint32_t> sizes = exchange_values(comm, std::span<const std::uint32_t>(own_sizes));
  const auto size_of = [&](std::size_t rank, std::size_t i) { return sizes[rank * count + i]; };
  std::vector<std::size_t> slots(count, 0);  // [searches]: slots per rank for tokens; 0: too many tokens
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t total = 0;
    std::size_t max = 0;
    for (std::size_t rank = 0; rank < comm.size(); ++rank) {
      total += size_of(rank, i);
      max = std::max<std::size_t>(max, size_of(rank, i));
    }
    slots[i] = total <= kMaxBoundary ? max : 0;
  }

  std::vector<Candidate> message;
  for (std::size_t i = 0; i < count; ++i) {
    if (slots[i] == 0) continue;
    own[i].resize(slots[i]);
    message.insert(message.end(), own[i].begin(), own[i].end());
  }
  if (message.empty()) return;
  const std::vector<Candidate> all = exchange_values(comm, std::span<const Candidate>(message));
  for (std::size_t i = 0, offset = 0; i < count; offset += slots[i++]) {
    if (slots[i] == 0) continue;
    std::vector<Candidate> boundary;
    for (std::size_t rank = 0; rank < comm.size(); ++rank) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(rank * message.size() + offset);
      boundary.insert(boundary.end(), first, first + size_of(rank, i));
    }
    searches[i]->finish(std::move(boundary));
  }
}

}  // namespace

void cut_vocabulary(Communicator& comm, std::span<const Cut> cuts) {
  std::vector<Search> searches(cuts.begin(), cuts.end());
  std::vector<Search*> open;
  for (Search& search : searches) open.push_back(&search);
  const auto drop_finished = [&] {
    std::erase_if(open, [](const Search* search) { return search->done(); });
  };
  while (!open.empty()) {
    divide(comm, open);
    drop_finished();
    if (open.empty()) return;
    conclude(comm, open);
    drop_finished();
  }
}

}  // namespace tp
