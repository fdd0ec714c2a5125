#include "parallel/shard/slice.h"

#include "tp/tensor.h"

#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

// Returns the bytes of a slice in row `row` of the whole matrix, relative to the start of the tensor's data.
Range bytes_of_row(MatrixShape shape, const TensorSlice& slice, std::size_t row, DType type) {
  const std::size_t first = row * shape.columns;
  return {(first + slice.columns.begin) * size_of(type), (first + slice.columns.end) * size_of(type)};
}

TEST(TensorSlice, ByRowsIsOneContiguousRunOfBytes) {
  constexpr MatrixShape kShape{10, 7};
  const TensorSlice slice = TensorSlice::of_rows(kShape, {3, 6});
  EXPECT_EQ(slice.size(), 21U);
  EXPECT_EQ(bytes_of_row(kShape, slice, 3, DType::f32), (Range{84, 112}));
  EXPECT_EQ(bytes_of_row(kShape, slice, 4, DType::f32).begin, 112U);
  EXPECT_EQ(bytes_of_row(kShape, slice, 5, DType::bf16), (Range{70, 84}));
}

TEST(TensorSlice, ByColumnsIsOneRunPerRow) {
  constexpr MatrixShape kShape{3, 8};
  const TensorSlice slice = TensorSlice::of_columns(kShape, {2, 5});
  EXPECT_EQ(slice.size(), 9U);
  EXPECT_EQ(bytes_of_row(kShape, slice, 0, DType::f16), (Range{4, 10}));
  EXPECT_EQ(bytes_of_row(kShape, slice, 2, DType::f16), (Range{36, 42}));
}

TEST(TensorSlice, IsDisjointForEachRank) {
  constexpr MatrixShape kShape{13, 11};
  for (const bool by_rows : {true, false}) {
    for (const DType type : {DType::f32, DType::bf16}) {
      std::vector<int> taken(kShape.size() * size_of(type), 0);
      for (std::size_t rank = 0; rank < 4; ++rank) {
        const TensorSlice slice =
            by_rows ? TensorSlice::of_rows(kShape, split_evenly(kShape.rows, {rank, 4}))
                    : TensorSlice::of_columns(kShape, split_evenly(kShape.columns, {rank, 4}));
        for (std::size_t row = slice.rows.begin; row < slice.rows.end; ++row) {
          const Range bytes = bytes_of_row(kShape, slice, row, type);
          for (std::size_t byte = bytes.begin; byte < bytes.end; ++byte) taken.at(byte) += 1;
        }
      }
      EXPECT_EQ(taken, std::vector<int>(taken.size(), 1));
    }
  }
}

TEST(TensorSlice, FitsOnlyInsideItsShape) {
  constexpr MatrixShape kShape{4, 5};
  EXPECT_TRUE(TensorSlice::whole(kShape).fits(kShape));
  EXPECT_TRUE((TensorSlice{{4, 4}, {0, 5}}.fits(kShape)));
  EXPECT_FALSE((TensorSlice{{0, 5}, {0, 5}}.fits(kShape)));
  EXPECT_FALSE((TensorSlice{{0, 4}, {0, 6}}.fits(kShape)));
  EXPECT_FALSE((TensorSlice{{3, 2}, {0, 5}}.fits(kShape)));
  EXPECT_FALSE((TensorSlice{{0, 1}, {4, 3}}.fits(kShape)));
}

}  // namespace
}  // namespace tp
