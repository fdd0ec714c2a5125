// Advice of usage errors: names from other programs, units, places of arguments, and absurd numbers.

#include "launch/ranks/network_hint.h"
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <csignal>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using Cases = std::vector<std::pair<Arguments, std::string>>;

void expect_errors(const Cases& cases, int status) {
  for (const auto& [arguments, message] : cases) {
    SCOPED_TRACE(message);
    expect_one_error(run(kNoMpirun, arguments), status, message);
  }
}

TEST(UsageAdvice, APromptWithoutItsOptionIsGivenIt) {
  expect_errors(
      {
          {{"generate", "Once upon a time"}, "give a text with --prompt \"Once upon a time\" (see"},
          {{"generate", "--model", "x", "Once"}, "found \"Once\"; give a text with --prompt \"Once\""},
          {{"embed", "What is $HOME?"}, "give a text with --prompt TEXT (see"},
          {{"generate", "--prompt", "Once", "upon"}, "found \"upon\"; put a text with spaces in quotes"},
          {{"generate", "--prompt=Once", "upon"}, "found \"upon\"; put a text with spaces in quotes"},
          {{"chat", "Hello"}, "type it as the first message, or pipe it: echo TEXT | tp-infer chat"},
          {{"serve", "org/name"},
           "expected an option, found the name org/name; give a model with --model org/name"},
          {{"generate", ""}, "expected an option, found an empty argument; is a variable unset? (see"},
          {{"Once upon a time"}, "found a text; write tp-infer generate --prompt \"Once upon a time\""},
          {{"org/name"}, "found the model org/name; write tp-infer generate --model org/name --prompt TEXT"},
      },
      2);
}

TEST(UsageAdvice, AdvisesToMoveOptionsAfterTheSubcommand) {
  expect_errors(
      {
          {{"--prompt", "x", "generate"},
           "tp-infer generate: expected the subcommand before its options, found --prompt first; write "
           "tp-infer generate --prompt ..."},
          {{"-m", "x", "serve"}, "found -m first; write tp-infer serve -m ..."},
          {{"-p", "x"}, "it belongs to generate, embed, classify, fill-mask; write tp-infer generate -p ..."},
      },
      2);
}

TEST(UsageAdvice, NamesOfOtherProgramsAreAnsweredWithOurs) {
  const std::vector<std::pair<std::string, std::string>> of_generate = {
      {"--temp", "there is no option --temp; here it is --temperature (see"},
      {"-n", "there is no option -n; here it is --max-tokens"},
      {"--n-predict", "here it is --max-tokens"},
      {"--max_new_tokens", "here it is --max-tokens"},
      {"-c", "here it is --max-length"},
      {"--ctx-size", "here it is --max-length"},
      {"--max-model-len", "here it is --max-length"},
      {"-t", "here it is --threads"},
      {"-b", "here it is --prefill-chunk"},
      {"-f", "here it is --prompt-file"},
      {"-s", "here it is --seed"},
      {"--repeat-penalty", "here it is --repetition-penalty"},
      {"--max-num-seqs", "here it is --max-sequences"},
      {"--dtype", "here it is --weights"},
      {"--hf-repo", "here it is --model ORG/NAME"},
      {"-hf", "there is no option -hf; here it is --model ORG/NAME"},
      {"-md", "there is no option -md; here it is --speculate draft:DIR"},
      {"--model-path", "here it is --model"},
      {"-ngl", "leave it out: this program computes on processors, without GPUs"},
      {"--gpu-memory-utilization", "leave it out: this program computes on processors"},
      {"--tensor-parallel-size", "mpirun starts the ranks that divide the model"},
      {"-np", "it is mpirun's, for the number of ranks"},
      {"--flash-attn", "leave it out: it is not needed here"},
      {"--lora-modules", "here it is --lora NAME=PATH"},
      {"--enable-lora", "leave it out: it is not needed here"},
      {"-cnv", "for a conversation run tp-infer chat"},
      {"--alias", "it is --model-name, and belongs to serve"},
  };
  for (const auto& [option, answer] : of_generate)
    expect_errors({{{"generate", "--prompt", "x", option, "4"}, answer}}, 2);
  expect_errors(
      {
          {{"generate", "--prompt", "x", "--seed", "-1"}, "found -1; leave it out for a random seed"},
          {{"generate", "--prompt", "x", "--ranks", "4"}, "there is no option --ranks; leave it out: mpirun"},
          {{"serve", "--hostfile", "x"}, "it is mpirun's: mpirun --hostfile FILE"},
          {{"serve", "--log-level", "info"}, "leave it out: --verbose says more"},
          {{"serve", "--kv-store-size", "5TB"},
           "expected a number of gigabytes above 0, up to 1000000000, found 5TB"},
          {{"chat", "--api-key", "x"}, "put the key into a file for --api-key-file"},
          {{"gateway", "tp-infer", "serve", "--model", "x"},
           "expected -- before the command that starts the server, found --model without it"},
          {{"gateway", "--hots", "x"}, "there is no option --hots; did you mean --host?"},
          {{"serve", "-c", "4096"}, "here it is --max-length"},
          {{"plan", "--ctx-size", "4096"}, "here it is --context"},
          {{"chat", "-p", "x"}, "it is --prompt, and belongs to generate, embed, classify, fill-mask"},
          {{"quantize", "--outfile", "x"}, "here it is --output"},
          {{"run", "org/name"}, "there is no subcommand run; did you mean generate?"},
          {{"pull", "org/name"}, "there is no subcommand pull; did you mean download?"},
      },
      2);
}

TEST(UsageAdvice, ATypeThatOnlyFilesHaveNamesWhatToDo) {
  for (const auto& [type, advice] : std::vector<std::pair<std::string, std::string>>{
           {"q4_k_m", "`tp-infer quantize --weights q4_k_m` writes such files"},
           {"Q5_K_S", "`tp-infer quantize --weights q5_k_m` writes a file of a similar type"},
           {"q8_0", "here it is int8"},
           {"float16", "here it is f16"},
           {"fp8", "auto keeps the format that the model's files have"},
           {"iq1_s", "files that store iq1_s weights keep it with auto (see"}})
    expect_errors({{{"generate", "--prompt", "x", "--weights", type}, "found " + type + "; " + advice}}, 2);
}

TEST(UsageAdvice, AQuantityHasAUnit) {
  for (const auto& [option, value] :
       std::vector<std::pair<std::string, std::string>>{{"--memory", "256"},
                                                        {"--bandwidth", "200"},
                                                        {"--flops", "2"},
                                                        {"--net", "30us,10"},
                                                        {"--net", "30,10Gb"},
                                                        {"--net", "30us,1e300Gb"},
                                                        {"--flops", "1e-300T"}}) {
    expect_errors({{{"plan", option, value}, option + ": expected "}}, 2);
  }
  for (const char* memory : {"256G", "256GB", "256GiB", "274877906944B"})
    EXPECT_CONTAINS(run(kNoMpirun, {"plan", "--memory", memory}).out, " --memory 262144M ");
  expect_success(run(kNoMpirun, {"plan", "--net", "30us,10Gbps"}));
}

TEST(UsageAdvice, MessagesNameFlagsWithTheirDashes) {
  expect_errors(
      {
          {{"generate", "--prompt", "x", "--stop", ""}, "cannot stop at an empty text: --stop has one"},
          {{"generate", "--prompt", "x", "--bad-word", ""}, "cannot avoid an empty text: --bad-word has one"},
          {{"generate", "--prompt", "x", "--top-p", "2"}, "--top-p is 2, expected a number in (0, 1]"},
          {{"generate", "--prompt", "x", "--min-tokens", "9", "--max-tokens", "3"},
           "--min-tokens is 9, expected 0 to --max-tokens, which is 3"},
      },
      2);
  const TextModel model;
  expect_errors(
      {
          {{"generate", "--model", model.path(), "--prompt", "x", "--split", "1,2"},
           "cannot divide the model as asked: --split must have a number"},
          {{"generate", "--model", model.path(), "--prompt", "x", "--pipeline", "2"},
           "cannot divide 1 ranks into 2 pipeline stages: --pipeline must divide"},
          {{"serve", "--model", model.path(), "--host", "192.0.2.1", "--port", "80"},
           "cannot listen at --host 192.0.2.1 with --port 80"},
      },
      1);
}

TEST(UsageAdvice, AbsurdSizesAreAnErrorInOurWords) {
  const CheckpointCopies copies;
  for (const auto& [field, max] : std::vector<std::pair<std::string, std::string>>{
           {"num_hidden_layers", "65536"}, {"num_attention_heads", "65536"}, {"hidden_size", "16777216"}}) {
    const std::filesystem::path model = copies.copy("llama-gqa", field);
    change_config(model, {{field, 1000000000}});
    for (const char* command : {"inspect", "plan"}) {
      SCOPED_TRACE(field + " " + command);
      expect_one_error(run(kNoMpirun, {command, "--model", (model / "config.json").string()}), 1,
                       field + " must be at most " + max + ", found 1000000000; check config.json");
    }
  }
}

TEST(UsageAdvice, BytesThatAreNotUtf8InAPathAreReplacedInJson) {
  const TextModel model;
  const TemporaryDirectory directory;
  const std::filesystem::path folder = directory.path() / "a\xff";
  std::filesystem::copy(model.path(), folder);
  const std::string requests = directory.write(
      "requests",
      R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"x","max_tokens":1}})"
      "\n");
  const std::string path = folder.string();
  for (const Arguments& arguments :
       {Arguments{"bench", "--model", path, "--json", "--prompt", "4", "--generate", "2", "--repeat", "1"},
        Arguments{"bench", "--model", path, "--csv", "--prompt", "4", "--generate", "2", "--repeat", "1"},
        Arguments{"generate", "--model", path, "--batch", requests},
        Arguments{"quantize", "--model", path, "--weights", "int8", "--output", path + "/x.gguf",
                  "--json"}}) {
    SCOPED_TRACE(arguments.front());
    const Finished finished = run(kNoMpirun, arguments);
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_CONTAINS(finished.out, arguments[3] == "--csv" ? "a\xff" : "a\xEF\xBF\xBD");
  }
}

TEST(Notices, NameHostOptionsWithoutEffectOnOneHost) {
  const TextModel model;
  const Arguments generate = {"generate", "--model", model.path(), "--prompt", "x", "--max-tokens", "1"};
  expect_success(run(2, generate));
  Arguments int8 = generate;
  int8.insert(int8.end(), {"--wire", "int8"});
  EXPECT_EQ(without_mpi_noise(run(2, int8).err),
            "tp-infer: --wire int8 has no effect, because all ranks are on one host; leave it out\n");
}

TEST(Notices, WarnIfEveryoneMayUseTheServer) {
  const TextModel model;
  const auto log_of = [&](const std::string& host, const Arguments& more) {
    Arguments arguments = {"serve", "--model", model.path(), "--port", "0", "--host", host};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Process server(command_line(kNoMpirun, arguments));
    EXPECT_TRUE(server.wait_for_message("/v1\n"));
    ::kill(server.pid(), SIGTERM);
    return server.finish().err;
  };
  const std::string warning =
      "tp-infer: everyone who can reach --host 0.0.0.0 may use this server; give clients a key with "
      "--api-key-file\n";
  EXPECT_CONTAINS(log_of("0.0.0.0", {}), warning);
  EXPECT_EQ(log_of("0.0.0.0", {"--api-key", "x"}).find("everyone"), std::string::npos);
  EXPECT_EQ(log_of("127.0.0.1", {}).find("everyone"), std::string::npos);
}

TEST(NetworkHint, NamesTheBridgeAndTheNetwork) {
  const NetworkInterface docker{"docker0", "172.17.0.1", true};
  const NetworkInterface ethernet{"eth0", "10.0.0.1", false};
  const NetworkInterface infiniband{"ib0", "10.1.0.1", false};
  EXPECT_EQ(
      network_hint({docker, ethernet}),
      "; or Open MPI tries docker0 (172.17.0.1), which other hosts may have with the same address: name the "
      "hosts' network, mpirun --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0");
  EXPECT_CONTAINS(network_hint({ethernet, infiniband}), "one of eth0, ib0 that the hosts do not share");
  EXPECT_EQ(network_hint({ethernet}), "");
  EXPECT_EQ(network_hint({ethernet, {"eth0", "10.0.0.2", false}}), "") << "one interface with two addresses";
  EXPECT_EQ(network_hint({docker}), "");
  EXPECT_EQ(network_hint(), "") << "this process is no rank";
}

}  // namespace
}  // namespace tp::test
