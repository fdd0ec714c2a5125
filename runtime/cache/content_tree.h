// The index of the prefix cache: contents of full blocks, and the blocks that hold them.
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
// Precedes salts, which precede the first blocks of their texts.
constexpr ContentId kSalts = 1;
// No block; in a table, an entry whose block was released.
constexpr BlockId kNoBlock = -1;

// Hashes the tokens of a full block together with an id of everything before it.
using BlockHash = std::uint64_t (*)(std::uint64_t prefix, std::span<const TokenId> tokens);
std::uint64_t hash_of_block(std::uint64_t prefix, std::span<const TokenId> tokens);

// Contents are looked up by (preceding contents, own tokens). Hashes only speed up the lookup: tokens are
// compared, so a collision only costs time.
//
// A text may have a salt. Only texts with equal salts can have contents in common. Salts are stored as
// contents after kSalts, so they are compared, too, and no tokens can be mistaken for a salt.
//
// Contents are reference-counted. Their users are blocks that hold them, sequences whose last full block they
// describe, and contents that follow them. So a long text's blocks in a windowed group can be found even if
// its first blocks have been evicted.
class ContentTree {
 public:
  // `groups`: number of groups of layers. The index finds one block per contents and group.
  ContentTree(std::size_t groups, BlockHash hash) : groups_(groups), hash_(hash) {}

  // Returns the contents of these tokens after `preceding`, or kNoContents if they are unknown.
  ContentId find(ContentId preceding, std::span<const TokenId> tokens) const;
  // Like find(), but adds unknown contents, and makes the caller a user.
  ContentId use(ContentId preceding, std::span<const TokenId> tokens);
  // Returns the contents that precede the first block of texts with this salt: kNoContents if it is empty or
  // unknown.
  ContentId find_salt(std::string_view salt) const;
  // Like find_salt(), but adds an unknown salt, and makes the caller a user.
  ContentId use_salt(std::string_view salt);
  // Adds or removes a user. Contents without users are dropped. kNoContents and kSalts are ignored.
  void use(ContentId contents);
  void drop(ContentId contents);

  bool knows(ContentId contents) const { return contents_.contains(contents); }
  // The contents before these.
  ContentId preceding(ContentId contents) const { return at(contents).preceding; }
  // The group's block that holds these contents, or kNoBlock.
  BlockId holder(ContentId contents, std::size_t group) const { return at(contents).holders[group]; }
  // Makes `block` the group's holder of these contents, and a user of them. There must be no holder yet.
  void hold(ContentId contents, std::size_t group, BlockId block);
  // Undoes hold().
  void evict(ContentId contents, std::size_t group);

  // Throws std::logic_error unless the users are exactly the blocks, the following contents and `others`,
  // which may contain duplicates.
  void check_invariants(std::span<const ContentId> others) const;

 private:
  struct Contents {
    ContentId preceding = kNoContents;
    std::uint64_t hash = 0;  // key in index_
    std::size_t users = 0;
    std::vector<TokenId> tokens;   // [block_size]
    std::vector<BlockId> holders;  // [groups]
  };

  Contents& at(ContentId contents) { return contents_.at(contents); }
  const Contents& at(ContentId contents) const { return contents_.at(contents); }

  std::size_t groups_;
  BlockHash hash_;
  std::unordered_map<ContentId, Contents> contents_;
  std::unordered_multimap<std::uint64_t, ContentId> index_;  // hash -> contents
  ContentId next_ = kSalts + 1;
};

}  // namespace tp
