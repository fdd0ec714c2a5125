// Element types and non-owning views of dense, row-major arrays.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace tp {

// Element type of a stored tensor.
enum class DType : std::uint8_t { f32, f16, bf16 };

// Bytes per element.
constexpr std::size_t size_of(DType type) { return type == DType::f32 ? 4 : 2; }

// "f32", "f16" or "bf16", as in `--weights`.
constexpr std::string_view name_of(DType type) {
  return type == DType::f32 ? "f32" : type == DType::f16 ? "f16" : "bf16";
}

// A view of a matrix, [rows, columns]. Consecutive rows begin `stride` elements apart (stride >= columns).
//
// Arrays with more dimensions are stored as matrices with flattened columns, as their declarations note:
// `TensorView<float> query;  // [tokens, local_heads * head_dim]`. A view owns nothing and is passed by
// value. A view without memory, whose data() is null, is only a shape: kernels skip it.
template <class T>
class TensorView {
 public:
  TensorView() = default;
  TensorView(T* data, std::size_t rows, std::size_t columns) : TensorView(data, rows, columns, columns) {}
  TensorView(T* data, std::size_t rows, std::size_t columns, std::size_t stride)
      : data_(data), rows_(rows), columns_(columns), stride_(stride) {
    assert(stride >= columns);
  }
  // A mutable view converts to a const view.
  template <class U>
  requires std::is_same_v<const U, T> TensorView(TensorView<U> other)  // NOLINT(google-explicit-constructor)
      : TensorView(other.data(), other.rows(), other.columns(), other.stride()) {}

  T* data() const { return data_; }
  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  std::size_t stride() const { return stride_; }
  std::size_t size() const { return rows_ * columns_; }
  // True if there is nothing to compute: no elements, or no memory.
  bool empty() const { return size() == 0 || data_ == nullptr; }
  bool contiguous() const { return stride_ == columns_ || rows_ <= 1; }

  T* row(std::size_t index) const {
    assert(index < rows_);
    return data_ + index * stride_;
  }
  T& operator()(std::size_t row_index, std::size_t column) const {
    assert(column < columns_);
    return row(row_index)[column];
  }
  // Rows [begin, begin + count).
  TensorView rows_from(std::size_t begin, std::size_t count) const {
    assert(begin + count <= rows_);
    return TensorView(from(begin * stride_), count, columns_, stride_);
  }
  // Columns [begin, begin + count) of every row.
  TensorView columns_from(std::size_t begin, std::size_t count) const {
    assert(begin + count <= columns_);
    return TensorView(from(begin), rows_, count, stride_);
  }

 private:
  T* from(std::size_t element) const { return data_ == nullptr ? nullptr : data_ + element; }

  T* data_ = nullptr;
  std::size_t rows_ = 0;
  std::size_t columns_ = 0;
  std::size_t stride_ = 0;
};

}  // namespace tp
