// Inputs as text, and inputs from files.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "reports/error.hpp"
#include "suites/input.hpp"
#include "suites/tensor_file.hpp"
#include "tests/temporary_folder.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;

class InputFileTest : public TemporaryFolder {
 protected:
};

TEST(InputText, IsReadAsItIsWritten) {
  for (const std::string text :
       {"normal", "normal(sigma=5)", "normal(mean=-0.1, sigma=1e-30)", "constant(value=-inf)",
        "worst(a b/worst.txt)", "file(x.npy)", "file(a, b.safetensors, tensor=h.0, c)"})
    EXPECT_EQ(to_string(parse_input(text)), text);
  EXPECT_EQ(to_string(parse_input(" normal ( sigma = 5 , mean = 1 ) ")), "normal(mean=1, sigma=5)");
}

TEST_F(InputFileTest, TensorsComeFromFiles) {
  const Tensor stored(bf16, {2, 3, 4},
                      std::vector<double>{0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                          12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
  write_npy(folder_ / "x.npy", stored);
  write_safetensors(folder_ / "x.safetensors", {{"h", stored}, {"other", Tensor(fp32, {1})}});
  const auto fill = [&](const Shape& shape, const std::string& input) {
    Tensor t(bf16, shape);
    InputSpec spec = parse_input(input);
    spec.path = (folder_ / spec.path).string();
    fill_input(t, spec, 1, "x");
    return t.values();
  };
  EXPECT_EQ(fill({2, 3, 4}, "file(x.npy)"), stored.values());
  EXPECT_EQ(fill({6, 4}, "file(x.safetensors, tensor=h)"), stored.values());
  EXPECT_EQ(fill({24}, "file(x.npy)"), stored.values());
  EXPECT_THROW(fill({4, 6}, "file(x.npy)"), InputError);
  EXPECT_THROW(fill({25}, "file(x.npy)"), InputError);
  EXPECT_THROW(fill({24}, "file(x.safetensors)"), InputError);
  write_npy(folder_ / "fp32.npy", Tensor(fp32, {24}));
  EXPECT_THROW(fill({24}, "file(fp32.npy)"), InputError);
}

TEST_F(InputFileTest, RefusesListsOfWorstCasesThatAreNone) {
  Tensor t(bf16, {4});
  const auto message = [&](const std::string& text) {
    const std::string path = put("w.txt", text);
    try {
      fill_input(t, {"worst", {}, path, ""}, 1, "x");
    } catch (const InputError& e) {
      return std::string(e.what()).substr(folder_.string().size() + 1);
    }
    return std::string();
  };
  EXPECT_EQ(message("# nothing\n"), "w.txt: no values, expected one hexadecimal number a line");
  for (const std::string bad : {"1.5", "0x", "0x1.8p+1 0x1", "-", "0x-1", "0x1p+99999", "nan"})
    EXPECT_EQ(message("0x1p+0\n" + bad + "\n"),
              "w.txt:2: '" + bad + "', expected a hexadecimal number such as -0x1.8p-3");
  EXPECT_EQ(message("0x1.01p+0"), "w.txt:1: '0x1.01p+0', expected a value that bf16 holds");
}

TEST(InputText, IntegersComeFromFilesOnly) {
  Tensor labels(Element::int32, {4});
  EXPECT_THROW(fill_input(labels, InputSpec{}, 1, "labels"), InputError);
  EXPECT_THROW(fill_input(labels, {"worst", {}, "w.txt", ""}, 1, "labels"), InputError);
}

}  // namespace
}  // namespace opbound
