// A drafter's checkpoint with the embedding and the LM head of its target, if it stores none of its own.
#pragma once

#include "model/weights/source/source_decorator.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tp {

// Tensors that the drafter lacks come from the target, under the drafter's names. Counts of bytes and of
// unread tensors are of the drafter's own files.
class BorrowedTables final : public SourceDecorator {
 public:
  // `names`: the drafter's name of each tensor that it borrows, and the target's name.
  BorrowedTables(std::unique_ptr<WeightSource> own, std::unique_ptr<WeightSource> target,
                 std::map<std::string, std::string> names);

  std::vector<std::string> names() const override;
  void read_exactly(const ColumnReader& columns) override;
  std::uint64_t fingerprint() const override;

 private:
  Place place_of(const std::string& name) const override;

  std::unique_ptr<WeightSource> target_;
  std::map<std::string, std::string> names_;
};

}  // namespace tp
