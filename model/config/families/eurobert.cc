// EuroBERT: Llama as an encoder. Source: Boizard et al., EuroBERT: Scaling Multilingual Encoders for European
// Languages, 2025.
#include "model/config/families/encoders.h"
#include "tp/internal/require.h"

namespace tp::families {
namespace {

ModelSpec eurobert_body(const CheckpointConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (BlockSpec& block : spec.blocks) attention_of(block).pattern.causal = false;
  spec.bidirectional = true;
  spec.has_lm_head = false;
  return spec;
}

void set_eurobert_lm_head(const CheckpointConfig& /*config*/, ModelSpec& spec) { spec.has_lm_head = true; }

// The class pools after its layers if clf_pooling is "late", which is the default.
void set_eurobert_classifier(const CheckpointConfig& config, ModelSpec& spec) {
  const std::string& pooling = config.encoder.classifier_pooling;
  require<ConfigError>(pooling == "bos" || pooling == "mean",
                       "clf_pooling must be bos or mean for {}, found {}: pooling after the classifier's "
                       "layers is not supported; use a model without it",
                       config.architecture, pooling);
  two_layer_classifier("dense", PooledLayerSpec::Activation::gelu, "classifier")(config, spec);
  spec.sequence_head->pooling = pooling == "mean" ? Pooling::mean : Pooling::first;
}

Family eurobert_like() {
  Family family{.architecture = {}, .names = llama_names(), .make_spec = eurobert_body};
  family.defaults.rms_norm_eps = 1e-5;
  family.defaults.rope_theta = 250000;
  family.defaults.max_position_embeddings = 8192;
  family.defaults.encoder.classifier_pooling = "late";
  return family;
}

}  // namespace

std::vector<Family> eurobert() {
  return encoder_classes(
      eurobert_like(),
      {{ModelKind::encoder, {"EuroBertModel"}},
       {ModelKind::masked_lm, {"EuroBertForMaskedLM"}, set_eurobert_lm_head},
       {ModelKind::classifier, {"EuroBertForSequenceClassification"}, set_eurobert_classifier}});
}

}  // namespace tp::families
