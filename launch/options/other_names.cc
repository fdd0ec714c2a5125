#include "launch/options/other_names.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>

namespace tp {
namespace {

using Texts = std::vector<std::string_view>;

// Names in llama.cpp, vLLM, Ollama, Transformers and other programs, and the names here with the same
// meaning.
struct Renamed {
  Texts names;
  Texts ours;  // the subcommand's first option among these is meant; may include a value
};

// clang-format off
const std::vector<Renamed> kRenamed = {
    {{"--temp"}, {"--temperature"}},
    {{"-n", "--n-predict", "--predict", "--num-predict", "--max-new-tokens", "--max-gen-len", "--gen-len"},
     {"--max-tokens", "--generate"}},
    {{"-c", "--ctx-size", "--ctx", "--n-ctx", "--num-ctx", "--max-model-len", "--max-seq-len", "--max-seq-length",
      "--context-length", "--context-size", "--max-context"},
     {"--max-length", "--context", "--window"}},
    {{"-t", "--n-threads", "--num-threads", "--threads-batch", "-tb", "--cpus"}, {"--threads"}},
    {{"-b", "--batch-size", "-ub", "--ubatch-size", "--max-num-batched-tokens", "--chunked-prefill-size"},
     {"--prefill-chunk"}},
    {{"--parallel", "--max-num-seqs", "--max-running-requests", "--max-concurrent-requests", "--max-batch-size", "--max-batch"},
     {"--max-sequences", "--batch"}},
    {{"-p"}, {"--prompt", "--query"}},
    {{"-f"}, {"--prompt-file", "--file", "--batch"}},
    {{"--input", "--input-file"}, {"--batch", "--file", "--prompt-file"}},
    {{"-m", "--model-path", "--model-id", "--model-dir", "--model-name-or-path", "--ckpt-dir", "--checkpoint"}, {"--model"}},
    {{"-hf", "-hfr", "-hff", "--hf-repo", "--hf-file", "--repo-id", "-mu", "--model-url"}, {"--model ORG/NAME"}},
    {{"-a", "--alias", "--served-model-name"}, {"--model-name"}},
    {{"-s", "--random-seed"}, {"--seed"}},
    {{"--repeat-penalty", "--rep-pen"}, {"--repetition-penalty"}},
    {{"-r", "--reverse-prompt", "--stop-sequence", "--stop-strings"}, {"--stop"}},
    {{"--num-beams", "--beam-size", "--use-beam-search"}, {"--beams"}},
    {{"--num-return-sequences", "--num-samples", "--best-of"}, {"--n"}},
    {{"--pipeline-parallel-size", "-pp", "--pp-size"}, {"--pipeline"}},
    {{"--dtype", "--torch-dtype", "--quantization", "-q", "--quantize", "--load-in-8bit", "--load-in-4bit", "--outtype",
      "--weight-dtype"},
     {"--weights"}},
    {{"--kv-cache-dtype", "--cache-type-k", "-ctk", "--cache-type-v", "-ctv", "--kv-dtype"}, {"--kv-type"}},
    {{"-ts", "--tensor-split"}, {"--split"}},
    {{"-sys", "--system-prompt", "--system-message", "-sysf"}, {"--system"}},
    {{"-j", "--guided-json"}, {"--json-schema"}},
    {{"--grammar-file", "--guided-grammar"}, {"--grammar"}},
    {{"--guided-regex"}, {"--regex"}},
    {{"--guided-choice"}, {"--choice"}},
    {{"--chat-template-file", "--custom-chat-template"}, {"--chat-template", "--template"}},
    {{"--lora-scaled", "--lora-modules", "--lora-path"}, {"--lora NAME=PATH"}},
    {{"-md", "--model-draft", "--speculative-model", "--speculative-config", "--assistant-model"},
     {"--speculate draft:DIR"}},
    {{"--draft", "--draft-max", "--draft-n", "--num-speculative-tokens", "--num-assistant-tokens"}, {"--speculate KIND:N"}},
    {{"--reasoning-budget", "--thinking-budget"}, {"--max-thinking-tokens"}},
    {{"--no-display-prompt"}, {"--no-echo"}},
    {{"--address", "--listen", "--hostname"}, {"--host"}},
    {{"--allowed-origins", "--allow-origins"}, {"--cors-origins"}},
    {{"--local-dir", "--download-dir", "--cache-dir"}, {"--to"}},
    {{"--out", "--outfile", "--output-file"}, {"--output"}},
};

// Options of other programs without a counterpart here, with the reason.
struct Explained {
  Texts names;
  std::string_view answer;
};

const std::vector<Explained> kExplained = {
    {{"-ngl", "--gpu-layers", "--n-gpu-layers", "--num-gpu", "--main-gpu", "-mg", "-sm", "--split-mode", "--device", "-dev",
      "--device-map", "--gpu-memory-utilization", "--mem-fraction-static", "--enforce-eager", "--cpu-offload-gb", "--swap-space",
      "--cuda", "--gpus"},
     "leave it out: this program computes on processors, without GPUs"},
    {{"--tensor-parallel-size", "-tp", "--tp", "--tp-size", "--nproc-per-node", "--world-size", "--num-gpus"},
     "leave it out: mpirun starts the ranks that divide the model, such as mpirun -np 4 tp-infer ..."},
    {{"-np"}, "it is mpirun's, for the number of ranks: mpirun -np 4 tp-infer ...; sequences at once are --max-sequences"},
    {{"-fa", "--flash-attn", "--flash-attention", "--cont-batching", "-cb", "--enable-prefix-caching", "--cache-prompt",
      "--enable-chunked-prefill", "--jinja", "--trust-remote-code", "--stream", "--do-sample", "--no-warmup", "--metrics",
      "--enable-metrics", "--embedding", "--embeddings", "--reranking", "--rerank", "--enable-auto-tool-choice",
      "--tool-call-parser", "--reasoning-parser", "--reasoning-format", "--enable-reasoning", "--tokenizer", "--color", "-co",
      "--simple-io", "--task", "--no-conversation", "-no-cnv", "--disable-log-requests", "--log-disable", "--single-turn", "--enable-lora"},
     "leave it out: it is not needed here"},
    {{"--mlock", "--no-mmap", "--numa", "--use-mmap"},
     "leave it out: each rank copies its weights into the memory of its own cores"},
    {{"-cnv", "--conversation", "-i", "--interactive", "--interactive-first"}, "for a conversation run tp-infer chat"},
    {{"-e", "--escape"}, "leave it out: texts are taken as they are; bash writes a line break as $'\\n'"},
    {{"--mmproj", "-mm", "--image", "--audio"}, "images and sounds are not supported; leave it out"},
    {{"--ssl-keyfile", "--ssl-certfile", "--ssl-key-file", "--ssl-cert-file"},
     "leave it out: a proxy in front of the server has the certificate, see launch/samples/nginx.conf"},
    {{"--log-level", "--uvicorn-log-level", "--log-verbosity"}, "leave it out: --verbose says more, and serve's --quiet less"},
    {{"--hostfile", "--hosts-file", "--machinefile"}, "it is mpirun's: mpirun --hostfile FILE -np 4 tp-infer ..."},
    {{"--distributed-executor-backend", "--nnodes", "--node-rank", "--master-addr", "--dist-init-addr"},
     "leave it out: mpirun starts the ranks on all hosts, such as mpirun --hostfile FILE -np 4 tp-infer ..."},
};
// clang-format on

bool contains(const Texts& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::string name_in(std::string_view with_value) {
  return std::string(with_value.substr(0, with_value.find(' ')));
}

bool has_option(const CLI::App& command, std::string_view with_value) {
  return command.get_option_no_throw(name_in(with_value)) != nullptr;
}

std::string answer(const CLI::App& app, const CLI::App& command, const Texts& ours) {
  const auto found = std::ranges::find_if(ours, [&](auto option) { return has_option(command, option); });
  if (found != ours.end()) return fmt::format("here it is {}", *found);
  return fmt::format("it is {}, and belongs to {}", ours.front(),
                     fmt::join(subcommand_names(app, name_in(ours.front())), ", "));
}

}  // namespace

std::vector<std::string> subcommand_names(const CLI::App& app, const std::string& with_option) {
  std::vector<std::string> names;
  for (const CLI::App* subcommand : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (with_option.empty() || subcommand->get_option_no_throw(with_option) != nullptr)
      names.push_back(subcommand->get_name());
  }
  return names;
}

std::string answer_to_other_option(const CLI::App& app, const CLI::App& command, const std::string& name) {
  std::string asked = name;
  std::ranges::replace(asked, '_', '-');
  if (command.get_name() == "chat" && asked == "--api-key")  // other users of the machine see arguments
    return "put the key into a file for --api-key-file, or into the variable OPENAI_API_KEY";
  if (!has_option(command, "--hosts") && asked == "--ranks")
    return "leave it out: mpirun starts the ranks, such as mpirun -np 4 tp-infer ...";
  for (const Renamed& option : kRenamed)
    if (contains(option.names, asked)) return answer(app, command, option.ours);
  for (const Explained& option : kExplained)
    if (contains(option.names, asked)) return std::string(option.answer);
  return {};
}

std::string subcommand_of_other_name(const std::string& word) {
  static const std::map<std::string, std::string> kOthers = {
      {"run", "generate"},    {"complete", "generate"}, {"completion", "generate"}, {"cli", "chat"},
      {"pull", "download"},   {"server", "serve"},      {"show", "inspect"},        {"convert", "quantize"},
      {"embedding", "embed"}, {"embeddings", "embed"},  {"rerank", "rank"},         {"ppl", "perplexity"},
      {"benchmark", "bench"},
  };
  const auto found = kOthers.find(word);
  return found == kOthers.end() ? "" : found->second;
}

}  // namespace tp
