#include "model/quantize/model_tensors.h"

#include "model/layers/model.h"
#include "model/weights/unused_tensors.h"

#include <set>

namespace tp {
namespace {

// Records the requested tensors.
class RecordingSource final : public WeightSource {
 public:
  explicit RecordingSource(const WeightSource& source) : source_(source) {}

  bool contains(const std::string& name) const override { return source_.contains(name); }
  std::vector<std::string> names() const override { return source_.names(); }
  DType dtype(const std::string& name) const override { return source_.dtype(name); }
  void expect(const std::string& name, MatrixShape shape, const std::string& reason) const override {
    source_.expect(name, shape, reason);
    if (names_.insert(name).second) asked_.push_back({name, shape});
  }
  void read(const std::string& name, MatrixShape shape, const TensorSlice& slice,
            TensorView<float> out) const override {
    source_.read(name, shape, slice, out);
  }
  std::size_t stored_bytes() const override { return source_.stored_bytes(); }
  std::size_t bytes_read() const override { return source_.bytes_read(); }
  std::uint64_t fingerprint() const override { return source_.fingerprint(); }
  void done_with(const std::string& name) const override { source_.done_with(name); }
  // The tensors that were not requested. Scales of F8 elements belong to their tensors.
  std::vector<std::string> unread() const override {
    std::vector<std::string> names = source_.names();
    std::erase_if(names, [&](const std::string& name) {
      return name.ends_with("_scale_inv") || names_.contains(name);
    });
    return names;
  }

  const std::vector<ModelTensor>& asked() const { return asked_; }

 private:
  const WeightSource& source_;
  mutable std::vector<ModelTensor> asked_;
  mutable std::set<std::string> names_;
};

}  // namespace

std::vector<ModelTensor> model_tensors(const ModelSpec& spec, const WeightSource& source) {
  const RecordingSource recording(source);
  Model::shape_of(spec, recording, {0, 1}, {});
  find_unused_tensors(spec.names.as_stored_in(source), source, recording.unread());
  return recording.asked();
}

}  // namespace tp
