// tp-infer download, and --model with the name of a downloaded model.

#include "parallel/machine/file_text.h"
#include "tests/doc_example.h"
#include "tests/expect_contains.h"
#include "tests/launch/hub/fake_hub.h"
#include "tests/launch/program.h"
#include "tests/temporary_directory.h"

#include <csignal>
#include <cstdlib>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kDemo = fs::path(TP_SOURCE_FOLDER) / "model/demo";

// A hub with the demo model, and a home folder for the program.
struct DownloadUnderTest {
  FakeHub hub;
  TemporaryDirectory home;

  void add_demo() {
    for (const char* name : {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
                             "tokenizer_config.json", "README.md"})
      hub.add(name, file_text(kDemo / name));
    hub.add("pytorch_model.bin", "no");
  }

  StartOptions options() const {
    return {.variables = {"HF_ENDPOINT=" + hub.endpoint(), "HF_HOME=" + home.path().string(),
                          "HF_HUB_CACHE=", "HUGGINGFACE_HUB_CACHE=", "HF_TOKEN=", "HUGGING_FACE_HUB_TOKEN=",
                          "HF_HUB_OFFLINE=", "no_proxy=127.0.0.1"}};
  }

  Finished run(const Arguments& arguments, std::size_t ranks = kNoMpirun) const {
    return tp::test::run(ranks, arguments, options());
  }

  fs::path root() const { return home.path() / "hub/models--org--name"; }
  fs::path snapshot() const { return root() / "snapshots" / FakeHub::kCommit; }
};

TEST(Download, PrintsThePathOfAModelThatRuns) {
  DownloadUnderTest test;
  test.add_demo();
  const Finished finished = test.run({"download", "org/name"});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(finished.out, test.snapshot().string() + "\n");
  EXPECT_CONTAINS(finished.err, "tp-infer: fetching model.safetensors (5.3 MiB)\n");
  EXPECT_CONTAINS(finished.err, "tp-infer: run it: tp-infer generate --model org/name --prompt");
  EXPECT_EQ(finished.err.find('\r'), std::string::npos) << "no bar without a terminal";
  EXPECT_EQ(test.hub.count("pytorch_model.bin") + test.hub.count("README.md"), 0U);

  const Arguments story = {"generate", "--prompt", "Once", "--greedy", "--max-tokens", "8"};
  const auto with_model = [&](const std::string& model) {
    Arguments arguments = story;
    arguments.insert(arguments.end(), {"--model", model});
    return arguments;
  };
  const std::string expected = test.run(story).out;
  for (const std::size_t ranks : {kNoMpirun, std::size_t{2}}) {
    const Finished by_name = test.run(with_model("org/name"), ranks);
    expect_success(by_name);
    EXPECT_EQ(by_name.out, expected);
  }
  EXPECT_EQ(test.run(with_model(test.snapshot())).out, expected);

  const std::size_t requests = test.hub.count("resolve");
  const Finished again = test.run({"download", "org/name"});
  EXPECT_EQ(again.out, finished.out);
  EXPECT_CONTAINS(again.err, "all files are there already");
  EXPECT_EQ(test.hub.count("resolve"), requests);
}

// Returns the download commands of the README's first task and of the guide.
std::string commands_of_guides() {
  std::string commands = doc_example("README.md", "## Common tasks");
  commands.resize(commands.rfind("mpirun"));
  return commands + doc_example("launch/README.md", "## Downloads");
}

TEST(Download, WorksLikeTheGuidesExamples) {
  DownloadUnderTest test;
  test.hub.repository = "ORGANIZATION/NAME";
  test.add_demo();
  test.hub.add("m-Q4_K_M.gguf",
               file_text(fs::path(TP_TEST_DATA) / "gguf/llama-quant256-Q4_K_M-mixed/model.gguf"));
  StartOptions options = test.options();
  options.folder = test.home.path();
  options.variables.push_back("PATH=" + fs::path(TP_INFER_PROGRAM).parent_path().string() + ":" +
                              std::getenv("PATH"));
  options.variables.push_back("OMPI_MCA_rmaps_base_oversubscribe=1");
  options.variables.push_back("PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe");  // Open MPI 5
  options.variables.push_back("OMP_NUM_THREADS=1");
  const std::string commands = commands_of_guides();
  EXPECT_CONTAINS(commands, "--to DIR");
  const Finished finished = Process({"bash", "-ec", commands}, options).finish();
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_CONTAINS(finished.out, "*  model.safetensors");
  EXPECT_CONTAINS(finished.out, "vocab_size");
  EXPECT_TRUE(fs::exists(test.home.path() / "DIR/model.safetensors"));
}

TEST(Download, PlanAndInspectFetchOnlyTheDescription) {
  DownloadUnderTest test;
  test.add_demo();
  const TemporaryDirectory alone;
  fs::copy(kDemo / "config.json", alone.path() / "config.json");
  const auto inspect = [&](const std::string& model) {
    return test.run({"inspect", "--json", "--model", model});
  };
  const Finished finished = inspect("org/name");
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_CONTAINS(finished.err, "tp-infer: fetching config.json (");
  json found = json::parse(finished.out);
  json expected = json::parse(inspect(alone.path() / "config.json").out);
  for (json* shown : {&found, &expected}) shown->erase("model");
  EXPECT_EQ(found, expected);
  EXPECT_EQ(test.hub.count("resolve"), 1U) << "config.json";

  const std::size_t requests = test.hub.requests().size();
  expect_success(test.run({"plan", "--model", "https://huggingface.co/org/name"}));
  EXPECT_EQ(test.hub.requests().size(), requests) << "config.json is in the cache";
  expect_one_error(test.run({"generate", "--model", "org/name", "--prompt", "x"}), 1,
                   "found an incomplete model in the cache: model.safetensors is missing; to download it");
  test.run({"download", "org/name"});
  EXPECT_EQ(json::parse(inspect("org/name").out).at("parameters"), expected.at("parameters"));
}

TEST(Download, OfADescriptionNeedsAConfig) {
  DownloadUnderTest test;
  test.hub.add("model-Q4_K_M.gguf", "GGUF");
  expect_one_error(test.run({"plan", "--model", "org/name"}), 1,
                   "cannot describe org/name: expected a repository with config.json, found none in it");
}

TEST(Download, OfADescriptionTakesTheIndexAlong) {
  DownloadUnderTest test;
  test.hub.add("config.json", file_text(kDemo / "config.json"));
  test.hub.add("model.safetensors.index.json",
               R"({"weight_map": {"model.norm.weight": "model-00001-of-00001.safetensors"}})");
  test.hub.add("model-00001-of-00001.safetensors", some_bytes(100));
  const Finished finished = test.run({"inspect", "--model", "org/name"});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_TRUE(fs::exists(test.snapshot() / "model.safetensors.index.json"));
  EXPECT_EQ(test.hub.count("00001-of-00001"), 0U);
}

TEST(Download, ToAFolderWritesPlainFiles) {
  DownloadUnderTest test;
  test.add_demo();
  const fs::path folder = test.home.path() / "model";
  const Finished finished = test.run({"download", "org/name", "--to", folder, "--json"});
  EXPECT_EQ(finished.status, 0) << finished.err;
  const json report = json::parse(finished.out);
  EXPECT_EQ(report.at("path"), folder.string());
  EXPECT_EQ(report.at("commit"), FakeHub::kCommit);
  EXPECT_EQ(report.at("files").size(), 5U);
  EXPECT_FALSE(fs::is_symlink(folder / "model.safetensors"));
  EXPECT_EQ(file_text(folder / "model.safetensors"), file_text(kDemo / "model.safetensors"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 5);
  EXPECT_CONTAINS(finished.err, "--model " + folder.string());
  EXPECT_FALSE(fs::exists(test.root()));
  expect_success(test.run({"generate", "--prompt", "x", "--max-tokens", "1", "--model", folder}));
}

TEST(Download, ListsWithoutFetching) {
  DownloadUnderTest test;
  test.add_demo();
  const Finished finished = test.run({"download", "org/name", "--list"});
  EXPECT_EQ(finished.status, 0);
  EXPECT_CONTAINS(finished.out, "   5.3 MiB  *  model.safetensors\n");
  EXPECT_CONTAINS(finished.out, "       2 B     pytorch_model.bin\n");
  EXPECT_CONTAINS(finished.err, "7 files; download fetches the files with an asterisk, 5.3 MiB");
  const json report = json::parse(test.run({"download", "org/name", "--list", "--json"}).out);
  EXPECT_EQ(report.at("files").at(3).at("path"), "model.safetensors");
  EXPECT_EQ(report.at("files").at(3).at("fetched"), true);
  EXPECT_EQ(report.at("files").at(3).at("sha256").get<std::string>().size(), 64U);
  EXPECT_EQ(test.hub.count("resolve"), 0U);
}

TEST(Download, ChoosesAGgufModelByItsQuantization) {
  DownloadUnderTest test;
  const fs::path data = fs::path(TP_TEST_DATA) / "gguf";
  test.hub.add("m-Q4_0.gguf", file_text(data / "llama-quant256-Q4_0/model.gguf"));
  test.hub.add("m-Q4_K_M.gguf", file_text(data / "llama-quant256-Q4_K_M-mixed/model.gguf"));
  expect_one_error(test.run({"download", "org/name"}), 1,
                   "expected one GGUF model, found m-Q4_0.gguf (400.5 KiB), m-Q4_K_M.gguf");
  const Finished finished = test.run({"download", "org/name:Q4_0"});
  EXPECT_EQ(finished.out, (test.snapshot() / "m-Q4_0.gguf").string() + "\n") << finished.err;
  EXPECT_CONTAINS(finished.err, "--model org/name:Q4_0 ");
  EXPECT_EQ(test.hub.count("Q4_K_M"), 0U);
  const std::string tokens = test.home.write("tokens.json", "[1, 2, 3]");
  for (const char* name : {"org/name:Q4_0", "org/name:m-Q4_0.gguf", "org/name"}) {
    expect_success(test.run({"inspect", "--model", name}));
    expect_success(
        test.run({"generate", "--model", name, "--tokens", tokens, "--max-tokens", "2", "--json"}));
  }
  expect_one_error(test.run({"inspect", "--model", "org/name:Q4_K_M"}), 1,
                   "found org/name:m-Q4_0.gguf in the cache; name one; to download it, run `tp-infer "
                   "download org/name:Q4_K_M`");
}

TEST(Download, GoesOnAfterAnInterruption) {
  DownloadUnderTest test;
  test.add_demo();
  test.hub.set_fault("model.safetensors", {.times = 1, .cut_after = 2'000'000, .stalls = true});
  const HubFile weights = hub_file("model.safetensors", file_text(kDemo / "model.safetensors"), true);
  const fs::path partial = test.root() / "blobs" / (weights.checksum + ".incomplete");
  {
    Process process(command_line(kNoMpirun, {"download", "org/name"}), test.options());
    std::error_code ignored;
    EXPECT_TRUE(process.wait_for_message("fetching model.safetensors"));
    for (int i = 0; i < 1000 && fs::file_size(partial, ignored) != 2'000'000; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ::kill(process.pid(), SIGINT);
    const Finished finished = process.finish();
    EXPECT_EQ(finished.status, 128 + SIGINT);
    EXPECT_EQ(finished.out, "");
  }
  EXPECT_EQ(fs::file_size(partial), 2'000'000U);
  expect_one_error(test.run({"generate", "--model", "org/name", "--prompt", "x"}), 1,
                   "to download it, run `tp-infer download org/name`");
  const Finished finished = test.run({"download", "org/name"});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_CONTAINS(finished.err, "fetching model.safetensors (5.3 MiB, of which 1.9 MiB are there)");
  EXPECT_EQ(test.hub.requests().back().range, "bytes=2000000-");
  EXPECT_EQ(file_text(test.snapshot() / "model.safetensors"), file_text(kDemo / "model.safetensors"));
}

TEST(Download, HappensOnceIfTwoProcessesStartIt) {
  DownloadUnderTest test;
  test.add_demo();
  const std::vector<std::string> command = command_line(kNoMpirun, {"download", "org/name"});
  Process first(command, test.options());
  Process second(command, test.options());
  const Finished one = first.finish();
  const Finished other = second.finish();
  EXPECT_EQ(one.status + other.status, 0) << one.err << other.err;
  EXPECT_EQ(one.out, other.out);
  EXPECT_EQ(test.hub.count("/cdn/model.safetensors"), 1U);
  EXPECT_EQ(file_text(test.snapshot() / "model.safetensors"), file_text(kDemo / "model.safetensors"));
}

TEST(Download, ShowsABarAtATerminal) {
  DownloadUnderTest test;
  test.add_demo();
  StartOptions options = test.options();
  options.on_terminal = true;
  const Finished finished = Process(command_line(kNoMpirun, {"download", "org/name"}), options).finish();
  EXPECT_EQ(finished.status, 0);
  EXPECT_CONTAINS(finished.out, "downloading [");
  EXPECT_CONTAINS(finished.out, " of 5.3 MiB");
}

TEST(Download, NeverPrintsTheToken) {
  DownloadUnderTest test;
  test.hub.token = "hf_right";
  test.add_demo();
  StartOptions options = test.options();
  options.variables.push_back("HF_TOKEN=hf_wrong");
  const Finished refused = run(kNoMpirun, {"download", "org/name"}, options);
  expect_one_error(refused, 1,
                   "cannot list org/name: expected a repository that the token in HF_TOKEN may read");
  EXPECT_EQ(refused.err.find("hf_wrong"), std::string::npos);
  options.variables.push_back("HF_TOKEN=hf_right");
  const Finished finished = run(kNoMpirun, {"download", "org/name"}, options);
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ((finished.out + finished.err).find("hf_right"), std::string::npos);
}

TEST(Download, UnderMpirunIsDoneByTheFirstRank) {
  DownloadUnderTest test;
  test.add_demo();
  const Finished finished = test.run({"download", "org/name"}, 2);
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(finished.out, test.snapshot().string() + "\n");
}

TEST(Download, RejectsWrongNamesAsUsageErrors) {
  const DownloadUnderTest test;
  for (const char* name : {"name", "org/name:../x", "https://example.org/org/name"})
    expect_one_error(test.run({"download", name}), 2, "expected ORG/NAME or ORG/NAME:FILE, found");
  expect_one_error(test.run({"download", "org/name", "--revision", "../x"}), 2,
                   "expected a branch, tag or commit");
  expect_one_error(test.run({"download"}), 2, "tp-infer download: expected MODEL");
}

TEST(Download, WithoutAHomeAsksForAFolder) {
  DownloadUnderTest test;
  test.add_demo();
  StartOptions options = test.options();
  for (const char* unset : {"HOME=", "HF_HOME=", "XDG_CACHE_HOME="}) options.variables.push_back(unset);
  expect_one_error(run(kNoMpirun, {"download", "org/name"}, options), 1,
                   "found no HOME; give --to DIR, or set HF_HOME");
}

// A cache that other tools have filled.
struct CacheUnderTest : DownloadUnderTest {
  void link(const std::string& commit, const std::string& name) const {
    fs::create_directories(root() / "blobs");
    fs::create_directories(root() / "snapshots" / commit);
    fs::copy_file(kDemo / name, root() / "blobs" / name, fs::copy_options::skip_existing);
    fs::create_symlink("../../blobs/" + name, root() / "snapshots" / commit / name);
  }
  void link_all(const std::string& commit) const {
    for (const char* name : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"})
      link(commit, name);
  }
  // A command that needs the whole model.
  Finished open() const {
    const std::string ids = (root() / "ids.json").string();
    std::ofstream(ids) << "[1, 2]";
    return run(
        {"logits", "--model", "org/name", "--tokens", ids, "--output", (root() / "logits.npy").string()});
  }
};

TEST(CachedModel, IsTheMainBranchsOrTheOnlyRevision) {
  const CacheUnderTest test;
  test.link_all("aaaa");
  expect_success(test.open());
  test.link("bbbb", "config.json");
  expect_one_error(test.open(), 1, "cannot open org/name: expected a path or the name of a downloaded model");
  fs::create_directories(test.root() / "refs");
  std::ofstream(test.root() / "refs/main") << "aaaa";
  expect_success(test.open());
  std::ofstream(test.root() / "refs/main") << "bbbb";
  expect_one_error(test.open(), 1,
                   "found an incomplete model in the cache: model.safetensors is missing; to download it, "
                   "run `tp-infer download org/name` on every host");
  std::ofstream(test.root() / "refs/main") << "../../..";
  expect_one_error(test.open(), 1, "found no file, folder or cached model with this name");
}

TEST(CachedModel, NeedsTheContentOfItsLinks) {
  const CacheUnderTest test;
  test.link_all("aaaa");
  fs::remove(test.root() / "blobs/model.safetensors");
  expect_one_error(test.open(), 1, "found a link to ../../blobs/model.safetensors, which does not exist");
}

TEST(CachedModel, NeedsAllPartsThatTheIndexNames) {
  const CacheUnderTest test;
  test.link("aaaa", "config.json");
  test.link("aaaa", "model.safetensors");
  const fs::path snapshot = test.root() / "snapshots/aaaa";
  fs::rename(snapshot / "model.safetensors", snapshot / "model-00001-of-00002.safetensors");
  std::ofstream(snapshot / "model.safetensors.index.json")
      << R"({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})";
  expect_one_error(test.open(), 1,
                   "found an incomplete model in the cache: model-00002-of-00002.safetensors is missing");
}

TEST(CachedModel, IsNotAGgufFileIfAPartOfACheckpointIsCached) {
  const CacheUnderTest test;
  const fs::path gguf = fs::path(TP_TEST_DATA) / "gguf/llama-quant256-Q4_0/model.gguf";
  fs::create_directories(test.root() / "snapshots/aaaa");
  fs::copy_file(gguf, test.root() / "snapshots/aaaa/m.gguf");
  expect_success(test.open());
  test.link("aaaa", "config.json");  // `plan` fetches it, too
  expect_success(test.open());
  std::ofstream(test.root() / "snapshots/aaaa/model.safetensors.index.json")
      << R"({"weight_map": {"a": "model-00001-of-00001.safetensors"}})";
  expect_one_error(test.open(), 1,
                   "found an incomplete model in the cache: model-00001-of-00001.safetensors is missing");
  expect_success(test.run({"inspect", "--model", "org/name:m.gguf"}));
}

TEST(CachedModel, ComesAfterAFolderOfThatName) {
  const CacheUnderTest test;
  test.link_all("aaaa");
  fs::create_directories(test.home.path() / "org/name");
  StartOptions options = test.options();
  options.folder = test.home.path();
  expect_one_error(run(kNoMpirun, {"inspect", "--model", "org/name"}, options), 1, "org/name/config.json");
}

}  // namespace
}  // namespace tp::test
