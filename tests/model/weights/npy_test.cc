#include "model/files/npy.h"

#include "parallel/machine/file_text.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/reference/npy_array.h"

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace tp {
namespace {

using test::bytes_of;
using test::error_of;
using test::TemporaryDirectory;

std::string npy_file(const std::string& dictionary, const std::string& data) {
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(dictionary.size() & 0xff);
  file += static_cast<char>(dictionary.size() >> 8);
  return file + dictionary + data;
}

std::string read_error(const std::string& content) {
  const TemporaryDirectory directory;
  const auto path = directory.write("x.npy", content);
  return error_of<Error>([&] { read_npy(path); });
}

std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i) / 8;
  return values;
}

TEST(Npy, ReadsWrittenFilesBack) {
  const TemporaryDirectory directory;
  for (const auto& [rows, columns] :
       {std::pair<std::size_t, std::size_t>{5, 7}, {1, 1}, {0, 3}, {3, 0}, {100, 1000}}) {
    const auto path = directory.path() / "x.npy";
    const std::vector<float> values = counting(rows * columns);
    const TensorView<const float> view(values.data(), rows, columns);
    NpyWriter writer(path, rows, columns);
    writer.append(view.rows_from(0, rows / 2));
    writer.append(view.rows_from(rows / 2, rows - rows / 2));
    writer.finish();
    const NpyArray array = read_npy(path);
    EXPECT_EQ(array.shape, (std::vector<std::size_t>{rows, columns}));
    EXPECT_EQ(array.values, values);
    EXPECT_EQ(array.view().rows(), columns == 0 ? 0 : rows);
    EXPECT_EQ(array.view().columns(), columns);
    EXPECT_EQ(directory.files(), std::vector<std::string>{"x.npy"});
  }
}

TEST(Npy, ALinkOrADeviceIsWrittenToAndNotReplaced) {
  const TemporaryDirectory directory;
  const auto target = directory.write("target.npy", "old");
  const auto link = directory.path() / "link.npy";
  std::filesystem::create_symlink(target, link);
  const std::vector<float> values = counting(6);
  NpyWriter writer(link, 2, 3);
  writer.append(TensorView<const float>(values.data(), 2, 3));
  writer.finish();
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(read_npy(target).values, values);
}

TEST(Npy, RowsMayHaveAStride) {
  const TemporaryDirectory directory;
  const std::vector<float> values = counting(12);
  NpyWriter writer(directory.path() / "x.npy", 3, 2);
  writer.append({values.data(), 3, 2, 4});
  writer.finish();
  EXPECT_EQ(read_npy(directory.path() / "x.npy").values,
            (std::vector<float>{0, 0.125f, 0.5f, 0.625f, 1, 1.125f}));
}

TEST(Npy, HasTheHeaderThatNumPyWrites) {
  const TemporaryDirectory directory;
  const std::vector<float> values = counting(6);
  NpyWriter writer(directory.path() / "x.npy", 2, 3);
  writer.append({values.data(), 2, 3});
  writer.finish();
  const std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  const std::string expected =
      npy_file(dictionary + std::string(128 - 10 - 1 - dictionary.size(), ' ') + "\n", bytes_of(values));
  EXPECT_EQ(file_text(directory.path() / "x.npy"), expected);
}

TEST(Npy, LeavesNoFileWithoutFinish) {
  const TemporaryDirectory directory;
  directory.write("x.npy", "older");
  {
    NpyWriter writer(directory.path() / "x.npy", 2, 3);
    writer.append({counting(3).data(), 1, 3});
    EXPECT_EQ(directory.files().size(), 2u);
  }
  EXPECT_EQ(directory.files(), std::vector<std::string>{"x.npy"});
  EXPECT_EQ(std::filesystem::file_size(directory.path() / "x.npy"), 5u);
}

TEST(Npy, RefusesMissingSurplusAndOddRows) {
  const TemporaryDirectory directory;
  const std::vector<float> values = counting(12);
  NpyWriter writer(directory.path() / "x.npy", 2, 3);
  writer.append({values.data(), 1, 3});
  EXPECT_CONTAINS(error_of<Error>([&] { writer.finish(); }), "has 1 rows, expected 2");
  EXPECT_CONTAINS(error_of<Error>([&] {
                    writer.append({values.data(), 1, 4});
                  }),
                  "rows of 4 elements, expected 3");
  EXPECT_CONTAINS(error_of<Error>([&] {
                    writer.append({values.data(), 2, 3});
                  }),
                  "2 rows to 1, expected 2 in all");
  writer.append({values.data(), 1, 3});
  writer.finish();
}

TEST(Npy, ReportsAMissingDirectory) {
  const TemporaryDirectory directory;
  EXPECT_CONTAINS(error_of<Error>([&] { NpyWriter(directory.path() / "none" / "x.npy", 1, 1); }),
                  "x.npy: the file cannot be written (No such file or directory)");
}

TEST(Npy, ReportsAFullDiskAndLeavesNoFile) {
  const TemporaryDirectory directory;
  // A limit on file sizes is met like a full disk, once its signal is ignored.
  rlimit unlimited{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &unlimited), 0);
  rlimit limited = unlimited;
  limited.rlim_cur = 20000;
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
  // Many rows fail when they are written; a few are still buffered, and fail at the end.
  for (const std::size_t rows : {1000u, 5u}) {
    EXPECT_CONTAINS(error_of<Error>([&] {
                      const std::vector<float> values = counting(rows * 1000);
                      NpyWriter writer(directory.path() / "x.npy", rows, 1000);
                      writer.append({values.data(), rows, 1000});
                      writer.finish();
                    }),
                    "check the directory, its permissions and the free space");
  }
  ::setrlimit(RLIMIT_FSIZE, &unlimited);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_TRUE(directory.files().empty());
}

TEST(Npy, ReadsVectors) {
  const TemporaryDirectory directory;
  const auto path = directory.write(
      "x.npy", npy_file("{'shape': (3,), 'fortran_order': False, 'descr': '<f4'}\n", bytes_of(counting(3))));
  const NpyArray array = read_npy(path);
  EXPECT_EQ(array.shape, std::vector<std::size_t>{3});
  EXPECT_EQ(array.view().rows(), 1u);
  EXPECT_EQ(array.values, counting(3));
}

TEST(Npy, RefusesOtherFiles) {
  const std::string data = bytes_of(counting(6));
  const auto with_dictionary = [&](const std::string& dictionary) {
    return read_error(npy_file(dictionary, data));
  };
  EXPECT_CONTAINS(read_error("no such thing at all"), "expected NumPy format 1.0");
  EXPECT_CONTAINS(read_error(std::string("\x93NUMPY\x02\x00zzzz", 12)), "expected NumPy format 1.0");
  EXPECT_CONTAINS(read_error(std::string("\x93NUMPY\x01\x00\xff\xff{", 11)), "expected a whole header");
  EXPECT_CONTAINS(with_dictionary("{}"), "float32");
  EXPECT_CONTAINS(with_dictionary("{'descr': '<f8', 'fortran_order': False, 'shape': (3,)}"), "float32");
  EXPECT_CONTAINS(with_dictionary("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}"), "C order");
  for (const std::string shape : {"()", "(1, 1, 2, 3)", "6", "(-6,)", "(99999999999999999999,)", ""}) {
    EXPECT_CONTAINS(with_dictionary("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + "}"),
                    "one to three dimensions");
  }
  for (const std::string shape : {"(2, 2)", "(7,)", "(0,)", "(2684354560, 2684354560)"}) {
    EXPECT_CONTAINS(with_dictionary("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + "}"),
                    "as many elements as the shape says");
  }
}

TEST(Npy, RefusesAFileCutAnywhere) {
  const std::string file =
      npy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n", bytes_of(counting(2)));
  for (std::size_t size = 0; size < file.size(); ++size)
    EXPECT_NE(read_error(file.substr(0, size)), "") << size;
}

}  // namespace
}  // namespace tp
