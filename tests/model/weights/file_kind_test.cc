// Readers name the kind of a file if they expect a different one.
#include "model/files/file_kind.h"

#include "model/files/json_node.h"
#include "model/weights/gguf/gguf_files.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "model/weights/safetensors/safetensors_files.h"
#include "tests/model/weights/gguf_builder.h"

#include <string>

#include <gtest/gtest.h>

namespace tp {
namespace {

using namespace std::string_literals;
using test::error_of;
using test::TemporaryDirectory;

struct OtherFile {
  std::string bytes;
  std::string found;  // expected parts of errors: the kind and the advice
};

const OtherFile kPointer{"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n",
                         "found a Git LFS pointer in the place of the file's content; run `git lfs pull`"};
const OtherFile kPage{"\r\n<!DOCTYPE html><html><head>",
                      "found a web page, such as a login or an error; download the file again"};

const std::vector<OtherFile>& other_files() {
  static const std::vector<OtherFile> files = {
      kPointer,
      kPage,
      {"<HTML lang=\"en\">", "found a web page"},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied", "found a web page"},
      {"# xet version 0\nfilesize = 5\n", "found a pointer to a file in Xet"},
      {"\x1f\x8b\x08\0\0\0\0\0\0\x03"s + "some data", "found a file compressed by gzip; unpack it first"},
      {"\x1f\x8b\x08\x08\x12\x34\x56\x67\0\x03name"s, "found a file compressed by gzip"},
      {"\x28\xb5\x2f\xfd\x24\x05"s, "found a file compressed by zstd"},
      {"\xfd"
       "7zXZ\0\0"s,
       "found a file compressed by xz"},
      {"BZh91AY&SY", "found a file compressed by bzip2"},
      {"PK\x03\x04\0\0archive/data.pkl"s,
       "found a zip archive, such as PyTorch's weights (.bin, .pth); download the model's safetensors files"},
      {"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
       "found PyTorch's weights in Python's pickle format"},
      {"\x89HDF\r\n\x1a\n\0\0"s, "found an HDF5 file"},
      {"\x93NUMPY\x01\0v\0"s, "found an array of NumPy"},
      {"../../blobs/0123", "found the text of a link (../../blobs/0123); copy the model together"},
      {"Entry not found", "found the Hub's message that there is no such file"},
      {"Access to model a/b is restricted",
       "found the Hub's message about a missing permission; ask for access"},
      {"tjgg\x03\0\0\0"s, "found a GGML file, llama.cpp's format before GGUF; get the model as GGUF"},
      {"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02"s,
       "found a vocabulary of SentencePiece; check the file's name"},
      {std::string(257, 'a') + "ustar\0" + std::string(300, '\0'), "found a tar archive; unpack it first"}};
  return files;
}

std::string refusal_by(FileKind expected, const std::string& bytes) {
  return error_of<CheckpointError>([&] { refuse_other_kinds(bytes, "file", expected); });
}

TEST(FileKind, IsSaidOfFilesThatAreOfNoExpectedKind) {
  for (const auto& [bytes, found] : other_files()) {
    EXPECT_CONTAINS(refusal_by(FileKind::gguf, bytes), "file: expected a GGUF file, " + found);
    EXPECT_CONTAINS(refusal_by(FileKind::text, bytes), "file: expected a text, " + found);
  }
}

TEST(FileKind, IsNotSaidOfExpectedOrUnknownFiles) {
  const std::string safetensors = test::safetensors_file({test::counting_tensor("w", {2, 3})});
  const std::pair<FileKind, std::string> files[] = {
      {FileKind::gguf, test::GgufBuilder().file()},
      {FileKind::safetensors, safetensors},
      {FileKind::json, "{\"a\": 1"},
      {FileKind::sentencepiece, "\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02"s}};
  for (const auto& [kind, bytes] : files) {
    EXPECT_NO_THROW(refuse_other_kinds(bytes, "file", kind));
    const FileKind other = kind == FileKind::gguf ? FileKind::safetensors : FileKind::gguf;
    EXPECT_CONTAINS(refusal_by(other, bytes), "file: expected a");
  }
  for (const std::string& text :
       {"#version: 0.2\n\u0120 t\n"s, "{\"a\": {{ b }}}"s, "\n{\n a"s, ""s, "../a\nb"s})
    EXPECT_NO_THROW(refuse_other_kinds(text, "file", FileKind::text)) << text;
}

// The 8 bytes of a length may equal gzip's, and be small.
TEST(FileKind, IsSaidByReadersOfWeights) {
  for (const auto& [bytes, found] : other_files()) {
    const TemporaryDirectory folder;
    folder.write("model.safetensors", bytes);
    EXPECT_CONTAINS(error_of<CheckpointError>([&] { SafetensorsCheckpoint::open(folder.path()); }),
                    "model.safetensors: expected a safetensors file, " + found);
    const auto gguf = folder.write("model.gguf", bytes);
    EXPECT_CONTAINS(error_of<CheckpointError>([&] { GgufFiles files(gguf); }),
                    "model.gguf: expected a GGUF file, " + found);
  }
}

TEST(FileKind, IsSaidByReadersOfJson) {
  for (const auto& [bytes, found] : other_files()) {
    const TemporaryDirectory folder;
    const auto file = folder.write("config.json", bytes);
    EXPECT_CONTAINS(error_of<CheckpointError>([&] { read_json_file(file); }),
                    "config.json: expected a JSON file, " + found);
    folder.write("model.safetensors.index.json", bytes);
    EXPECT_CONTAINS(error_of<CheckpointError>([&] { find_safetensors_files(folder.path()); }),
                    "model.safetensors.index.json: expected a JSON file, " + found);
  }
  const TemporaryDirectory folder;
  folder.write("model.safetensors", "{\"error\": \"Repository not found\"}");
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { SafetensorsCheckpoint::open(folder.path()); }),
                  "expected a safetensors file, found a JSON file; check the file's name");
}

// Such files accompany models, and llama.cpp's tools write them.
TEST(FileKind, IsSaidOfGgufFilesWithoutAModel) {
  const TemporaryDirectory folder;
  const auto error_with = [&](const std::string& key, const std::string& value) {
    const auto file = folder.write("m.gguf", test::GgufBuilder().text(key, value).file());
    return error_of<CheckpointError>([&] { GgufFiles files(file); });
  };
  EXPECT_CONTAINS(
      error_with("general.type", "imatrix"),
      "m.gguf: expected a model, found an importance matrix, with which tools quantize a model; give");
  EXPECT_CONTAINS(error_with("general.type", "adapter"),
                  "m.gguf: expected a model, found a LoRA adapter without its model; give its model");
  for (const auto& [key, value] :
       {std::pair("general.type", "mmproj"), std::pair("general.architecture", "clip")})
    EXPECT_CONTAINS(error_with(key, value), "images or sound (mmproj); give the file of its language model");
  const auto model = folder.write("m.gguf", test::GgufBuilder().text("general.type", "model").file());
  EXPECT_NO_THROW(GgufFiles files(model));
}

}  // namespace
}  // namespace tp
