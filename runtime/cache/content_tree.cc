#include "runtime/cache/content_tree.h"

#include "parallel/machine/hash.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <stdexcept>

namespace tp {

std::uint64_t hash_of_block(std::uint64_t prefix, std::span<const TokenId> tokens) {
  std::uint64_t hash = mixed(prefix + 1);  // + 1 because mixed() maps 0, the empty prefix, to itself
  for (const TokenId token : tokens) hash = mixed(hash ^ static_cast<std::uint32_t>(token));
  return hash;
}

ContentId ContentTree::find(ContentId preceding, std::span<const TokenId> tokens) const {
  const auto [begin, end] = index_.equal_range(hash_(preceding, tokens));
  for (auto entry = begin; entry != end; ++entry) {
    const Contents& known = at(entry->second);
    if (known.preceding == preceding && std::ranges::equal(known.tokens, tokens)) return entry->second;
  }
  return kNoContents;
}

ContentId ContentTree::use(ContentId preceding, std::span<const TokenId> tokens) {
  if (const ContentId known = find(preceding, tokens); known != kNoContents) {
    use(known);
    return known;
  }
  const ContentId id = next_++;
  const std::uint64_t hash = hash_(preceding, tokens);
  contents_.emplace(
      id, Contents{preceding, hash, 1, {tokens.begin(), tokens.end()}, std::vector(groups_, kNoBlock)});
  index_.emplace(hash, id);
  use(preceding);
  return id;
}

namespace {

// [characters of the salt]
std::vector<TokenId> as_tokens(std::string_view salt) { return {salt.begin(), salt.end()}; }

bool is_counted(ContentId contents) { return contents != kNoContents && contents != kSalts; }

}  // namespace

ContentId ContentTree::find_salt(std::string_view salt) const {
  return salt.empty() ? kNoContents : find(kSalts, as_tokens(salt));
}

ContentId ContentTree::use_salt(std::string_view salt) {
  return salt.empty() ? kNoContents : use(kSalts, as_tokens(salt));
}

void ContentTree::use(ContentId contents) {
  if (is_counted(contents)) ++at(contents).users;
}

void ContentTree::drop(ContentId contents) {
  while (is_counted(contents) && --at(contents).users == 0) {
    const auto [begin, end] = index_.equal_range(at(contents).hash);
    index_.erase(std::find_if(begin, end, [&](const auto& entry) { return entry.second == contents; }));
    const ContentId preceding = at(contents).preceding;
    contents_.erase(contents);
    contents = preceding;  // the erased contents were its user
  }
}

void ContentTree::hold(ContentId contents, std::size_t group, BlockId block) {
  at(contents).holders[group] = block;
  use(contents);
}

void ContentTree::evict(ContentId contents, std::size_t group) {
  at(contents).holders[group] = kNoBlock;
  drop(contents);
}

void ContentTree::check_invariants(std::span<const ContentId> others) const {
  std::unordered_map<ContentId, std::size_t> users;
  for (const ContentId other : others) ++users[other];
  for (const auto& [id, contents] : contents_) {
    ++users[contents.preceding];
    users[id] += groups_ - static_cast<std::size_t>(std::ranges::count(contents.holders, kNoBlock));
    require<std::logic_error>(find(contents.preceding, contents.tokens) == id,
                              "contents {} are not found, or others instead", id);
  }
  for (const auto& [id, contents] : contents_) {
    require<std::logic_error>(contents.users == users[id] && contents.users > 0,
                              "contents {} have {} users, {} are counted", id, users[id], contents.users);
  }
  require<std::logic_error>(index_.size() == contents_.size(), "{} contents are known, {} are in the index",
                            contents_.size(), index_.size());
}

}  // namespace tp
