// The index of the prefix cache: known contents of full blocks, and the blocks that have them.
#pragma once

#include "runtime/cache/free_block_list.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tp {

// Identifies the tokens of a full block together with all tokens before them. Never reused.
using ContentId = std::uint64_t;
// Precedes a sequence's first block; also the contents of a block that is not published.
constexpr ContentId kNoContents = 0;
// Precedes the salts of texts, which in turn precede the first blocks of these.
constexpr ContentId kSalts = 1;
// No block; in a table, an entry whose block was released.
constexpr BlockId kNoBlock = -1;

// Hashes the tokens of a full block together with an id of everything before it.
using BlockHash = std::uint64_t (*)(std::uint64_t prefix, std::span<const TokenId> tokens);
std::uint64_t hash_of_block(std::uint64_t prefix, std::span<const TokenId> tokens);

// Contents are looked up by (preceding contents, own tokens). Hashes only speed up the lookup: tokens are
// compared, so a collision costs nothing but time.
//
// A text may have a salt; only texts with the same one can have contents in common. A salt is known as
// contents after kSalts, so it is compared, too, and no tokens can be mistaken for it.
//
// Contents are reference-counted. Their users are the blocks that have them, sequences whose last full block
// has them, and contents that follow them. So the blocks that a windowed layer still has of a long text can
// be found even if those of its beginning have been evicted.
class ContentTree {
 public:
  // `groups`: the number of groups of layers. For each of them, one block is indexed per contents.
  ContentTree(std::size_t groups, BlockHash hash) : groups_(groups), hash_(hash) {}

  // The contents of these tokens after `preceding`, or kNoContents if they are unknown.
  ContentId find(ContentId preceding, std::span<const TokenId> tokens) const;
  // The same, but adds unknown contents, and makes the caller a user.
  ContentId use(ContentId preceding, std::span<const TokenId> tokens);
  // What precedes the first block of texts with this salt: kNoContents without one (""), or if it is unknown.
  ContentId find_salt(std::string_view salt) const;
  // The same, but adds an unknown salt, and makes the caller a user.
  ContentId use_salt(std::string_view salt);
  // Adds or removes a user. Contents without users are dropped. kNoContents and kSalts are ignored.
  void use(ContentId contents);
  void drop(ContentId contents);

  // The group's block that has these contents, or kNoBlock.
  BlockId holder(ContentId contents, std::size_t group) const { return at(contents).holders[group]; }
  // Makes `block` the group's block of these contents, and a user of them. There must be no other.
  void hold(ContentId contents, std::size_t group, BlockId block);
  // Undoes hold().
  void evict(ContentId contents, std::size_t group);

  // The number of known contents.
  std::size_t size() const { return contents_.size(); }

  // Throws std::logic_error unless the users are exactly the blocks, the following contents and `others`,
  // which may contain duplicates.
  void check_invariants(std::span<const ContentId> others) const;

 private:
  struct Contents {
    ContentId preceding = kNoContents;
    std::uint64_t hash = 0;  // its key in index_
    std::size_t users = 0;
    std::vector<TokenId> tokens;   // [block_size]
    std::vector<BlockId> holders;  // [groups]
  };

  Contents& at(ContentId contents) { return contents_.at(contents); }
  const Contents& at(ContentId contents) const { return contents_.at(contents); }

  std::size_t groups_;
  BlockHash hash_;
  std::unordered_map<ContentId, Contents> contents_;
  std::unordered_multimap<std::uint64_t, ContentId> index_;  // by hash
  ContentId next_ = kSalts + 1;
};

}  // namespace tp
