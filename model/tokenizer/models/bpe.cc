#include "model/tokenizer/models/bpe.h"

#include "model/tokenizer/text/utf8.h"

#include <algorithm>
#include <functional>
#include <tuple>

namespace tp {
namespace {

constexpr char32_t word_mark = 0x2581;
constexpr std::string_view kWordMarkText = "\xE2\x96\x81";

// Pairs that may merge: lowest rank first, and among equal ranks the leftmost first. An entry combines a rank
// and a position in one number. Entries stay in the queue when their pair changes, and are checked when they
// are removed.
class MergeQueue {
 public:
  void add(MergeTable::Rank rank, std::int32_t position) {
    if (rank == MergeTable::kNoRank) return;
    entries_.push_back((std::uint64_t{rank} << 32) | static_cast<std::uint32_t>(position));
    if (is_heap_) std::push_heap(entries_.begin(), entries_.end(), std::greater<>());
  }
  // Makes a heap of all entries added so far, which is faster than single insertions.
  void build() {
    std::make_heap(entries_.begin(), entries_.end(), std::greater<>());
    is_heap_ = true;
  }
  bool empty() const { return entries_.empty(); }
  std::pair<MergeTable::Rank, std::int32_t> take_first() {
    std::pop_heap(entries_.begin(), entries_.end(), std::greater<>());
    const std::uint64_t entry = entries_.back();
    entries_.pop_back();
    return {static_cast<MergeTable::Rank>(entry >> 32), static_cast<std::int32_t>(entry & 0xFFFFFFFF)};
  }

 private:
  std::vector<std::uint64_t> entries_;
  bool is_heap_ = false;
};

}  // namespace

Bpe::Bpe(Vocabulary vocabulary, const std::vector<Merge>& merges, const Options& options)
    : vocabulary_(std::move(vocabulary)), merges_(merges.size()), options_(options) {
  for (const Merge& merge : merges) merges_.add(merge.left, merge.right, {merge.rank, merge.result});
  index_tokens();
  find_cuts(merges);
}

void Bpe::index_tokens() {
  for (std::size_t id = 0; id < vocabulary_.size(); ++id) {
    const auto text = vocabulary_.find_text(static_cast<TokenId>(id));
    if (!text || text->empty()) continue;
    const utf8::Character character = utf8::first_character(*text);
    if (character.length != text->size()) continue;
    if (character.code_point < ascii_.size())
      ascii_[character.code_point] = static_cast<TokenId>(id);
    else
      characters_.emplace(character.code_point, static_cast<TokenId>(id));
  }
  if (options_.byte_fallback) byte_fallback_ = ByteFallback(vocabulary_);
}

void Bpe::find_cuts(const std::vector<Merge>& merges) {
  // Without cuts if the vocabulary lacks the mark, which could fuse with adjacent unknown characters, or if
  // whole pieces are looked up.
  if (!token_of_character(word_mark) || options_.ignore_merges) return;
  for (const Merge& merge : merges) {
    if (!vocabulary_.find_text(merge.right)->starts_with(kWordMarkText)) continue;
    const std::string_view left = *vocabulary_.find_text(merge.left);
    if (left.empty()) continue;  // no character maps to this token
    if (may_end_in_stand_in(left)) return;
    joins_mark_.push_back(utf8::last_character(left));
  }
  std::sort(joins_mark_.begin(), joins_mark_.end());
  joins_mark_.erase(std::unique(joins_mark_.begin(), joins_mark_.end()), joins_mark_.end());
  cuts_at_marks_ = true;
}

bool Bpe::may_end_in_stand_in(std::string_view token) const {
  if (options_.unknown && token.ends_with(*vocabulary_.find_text(*options_.unknown))) return true;
  return options_.byte_fallback && token.ends_with('>');
}

std::optional<TokenId> Bpe::token_of_character(char32_t code_point) const {
  if (code_point < ascii_.size()) return ascii_[code_point];
  const auto entry = characters_.find(code_point);
  if (entry == characters_.end()) return std::nullopt;
  return entry->second;
}

bool Bpe::may_cut(std::string_view text, std::size_t place) const {
  const char32_t before = utf8::last_character(text.substr(0, place));
  return !std::binary_search(joins_mark_.begin(), joins_mark_.end(), before);
}

void Bpe::encode(std::string_view piece, std::vector<TokenId>& out) const {
  if (options_.ignore_merges) {
    if (const std::optional<TokenId> whole = vocabulary_.find(piece)) return out.push_back(*whole);
  }
  std::size_t begin = 0;
  if (cuts_at_marks_) {
    std::size_t mark = piece.find(kWordMarkText, 1);
    for (; mark != std::string_view::npos; mark = piece.find(kWordMarkText, mark + 1)) {
      if (!may_cut(piece, mark)) continue;
      encode_word(piece.substr(begin, mark - begin), out);
      begin = mark;
    }
  }
  encode_word(piece.substr(begin), out);
}

void Bpe::encode_word(std::string_view word, std::vector<TokenId>& out) const {
  if (cache_->append_tokens_of(word, out)) return;
  std::vector<Symbol> symbols = symbols_of(word);
  merge(symbols);
  const std::size_t size_before = out.size();
  if (!symbols.empty()) {
    for (std::int32_t i = 0; i != -1; i = symbols[static_cast<std::size_t>(i)].next)
      out.push_back(symbols[static_cast<std::size_t>(i)].id);
  }
  cache_->remember(word, out.data() + size_before, out.size() - size_before);
}

std::vector<Bpe::Symbol> Bpe::symbols_of(std::string_view word) const {
  std::vector<TokenId> ids;
  ids.reserve(word.size());
  bool after_unknown = false;
  while (!word.empty()) {
    const utf8::Character character = utf8::first_character(word);
    const std::optional<TokenId> id = token_of_character(character.code_point);
    if (id) {
      ids.push_back(*id);
      after_unknown = false;
    } else if (byte_fallback_.append(word.substr(0, character.length), ids)) {
      after_unknown = false;
    } else if (options_.unknown) {
      if (!(options_.fuse_unknown && after_unknown)) ids.push_back(*options_.unknown);
      after_unknown = true;
    }
    word.remove_prefix(character.length);
  }
  std::vector<Symbol> symbols(ids.size());
  const auto count = static_cast<std::int32_t>(ids.size());
  for (std::int32_t i = 0; i < count; ++i) {
    const bool is_last = i + 1 == count;
    const auto at = static_cast<std::size_t>(i);
    symbols[at] = {ids[at], i - 1, is_last ? -1 : i + 1,
                   is_last ? MergeTable::Merge() : merges_.find(ids[at], ids[at + 1])};
  }
  return symbols;
}

void Bpe::merge(std::vector<Symbol>& symbols) const {
  const auto at = [&](std::int32_t position) -> Symbol& {
    return symbols[static_cast<std::size_t>(position)];
  };
  MergeQueue queue;
  for (std::size_t i = 0; i < symbols.size(); ++i)
    queue.add(symbols[i].merge.rank, static_cast<std::int32_t>(i));
  queue.build();
  const auto update_rank = [&](std::int32_t position) {
    Symbol& symbol = at(position);
    symbol.merge = symbol.next == -1 ? MergeTable::Merge() : merges_.find(symbol.id, at(symbol.next).id);
    queue.add(symbol.merge.rank, position);
  };
  while (!queue.empty()) {
    const auto [rank, position] = queue.take_first();
    Symbol& left = at(position);
    if (left.merge.rank != rank) continue;  // a symbol of the pair was merged with another symbol since
    Symbol& right = at(left.next);
    left.id = left.merge.result;
    left.next = right.next;
    right.merge = {};
    if (left.next != -1) at(left.next).previous = position;
    update_rank(position);
    if (left.previous != -1) update_rank(left.previous);
  }
}

std::vector<Bpe::Merge> Bpe::merges() const {
  std::vector<Merge> merges;
  merges_.for_each([&](TokenId left, TokenId right, const MergeTable::Merge& merge) {
    merges.push_back({left, right, merge.result, merge.rank});
  });
  std::ranges::sort(merges, {}, [](const Merge& merge) { return std::tuple(merge.rank, merge.left); });
  return merges;
}

}  // namespace tp
