#pragma once

#include "tp/draft_source.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tp {

// Asks a free source first. Then asks another source about the sequences whose draft is missing or probably
// wrong.
class MixedSource : public DraftSource {
 public:
  MixedSource(std::unique_ptr<DraftSource> free, std::unique_ptr<DraftSource> other);

  std::vector<Draft> draft(std::span<const DraftQuery> queries) override;
  void learn_from(const DraftQuery& text) override;
  void end(std::uint64_t sequence) override;

 private:
  std::unique_ptr<DraftSource> free_;
  std::unique_ptr<DraftSource> other_;
};

}  // namespace tp
