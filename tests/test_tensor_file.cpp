// Tensors, and their files: round trips, and one clear refusal for everything that may be wrong.
#include "suites/tensor_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "tests/temporary_folder.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

constexpr std::array every_element{Element::fp64,  Element::fp32,   Element::tf32, Element::bf16,
                                   Element::fp16,  Element::e4m3,   Element::e5m2, Element::int32,
                                   Element::int64, Element::boolean};

std::vector<std::byte> bytes_of_tensor(const Tensor& t) {
  return {t.bytes().begin(), t.bytes().end()};
}

/// Values that every element holds.
Tensor small_tensor(Element e, const Shape& shape) {
  Tensor t(e, shape);
  for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, static_cast<double>(i % 2));
  return t;
}

// ---- Tensor

TEST(Tensor, RoundsToItsFormat) {
  const double third = 1.0 / 3;
  const Tensor t(bf16, {2}, std::vector{third, -1e300});
  EXPECT_EQ(t.at(0), round_to(bf16, third));
  EXPECT_EQ(t.at(1), -std::numeric_limits<double>::infinity());
  for (const Format& f : all_formats) {
    const Tensor one(f, {1}, std::vector{third});
    EXPECT_EQ(one.at(0), round_to(f, third)) << name_of(f);
    EXPECT_EQ(one.bytes().size(), static_cast<std::size_t>(f.bytes())) << name_of(f);
    EXPECT_EQ(format_of(one.element()), f);
  }
}

TEST(Tensor, StoresTheCanonicalNaN) {
  Tensor t(fp32, {1});
  t.set(0, -std::numeric_limits<double>::quiet_NaN());
  std::uint32_t bits = 0;
  std::memcpy(&bits, t.bytes().data(), sizeof bits);
  EXPECT_EQ(bits, 0x7fc00000U);
}

TEST(Tensor, KeepsIndices) {
  Tensor t(Element::int64, {2});
  const std::int64_t large = (std::int64_t{1} << 62) + 1;
  std::memcpy(t.bytes().data() + 8, &large, sizeof large);
  t.set(0, -7);
  EXPECT_EQ(t.index_at(0), -7);
  EXPECT_EQ(t.index_at(1), large);
  Tensor mask(Element::boolean, {2});
  mask.set(1, 1);
  EXPECT_EQ(mask.index_at(0), 0);
  EXPECT_EQ(mask.index_at(1), 1);
}

TEST(TensorView, FollowsStrides) {
  Tensor t(fp32, {2, 3}, std::vector<double>{0, 1, 2, 3, 4, 5});
  TensorView transposed = t.view();
  std::swap(transposed.size[0], transposed.size[1]);
  std::swap(transposed.stride[0], transposed.stride[1]);
  EXPECT_FALSE(transposed.is_contiguous());
  const double expected[] = {0, 3, 1, 4, 2, 5};
  for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(transposed.at(i), expected[i]);
  const TensorView repeated{t.bytes().data(), Element::fp32, 2, {2, 3}, {0, 1}};
  for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(repeated.at(i), static_cast<double>(i % 3));
}

TEST(TensorView, CountsDegenerateShapes) {
  const Tensor scalar(fp32, {}), empty(fp32, {3, 0, 2});
  EXPECT_EQ(scalar.count(), 1);
  EXPECT_EQ(scalar.at(0), 0);
  EXPECT_EQ(empty.count(), 0);
  EXPECT_TRUE(empty.bytes().empty());
}

TEST(TensorView, ReadsAtAnyAddress) {
  for (const Element e : every_element) {
    std::array<std::byte, 32> bytes{};
    void* odd = bytes.data() + 1;
    store(e, odd, 1, 1);
    EXPECT_EQ(load(e, odd, 1), 1) << name_of(e);
    EXPECT_EQ(load(e, odd, 0), 0) << name_of(e);
  }
}

// ---- files

class TensorFile : public TemporaryFolder {
 protected:
  /// A .npy file with this header, after the magic string, the version and the header's length.
  std::string npy(const std::string& header, const std::string& data, char major = 1) const {
    std::string bytes = "\x93NUMPY"s + major + '\0' + static_cast<char>(header.size() % 256) +
                        static_cast<char>(header.size() / 256);
    if (major > 1) bytes += "\0\0"s;
    return put("x.npy", bytes + header + data);
  }

  std::string safetensors(const std::string& header, const std::string& data) const {
    const std::uint64_t length = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return put("x.safetensors", bytes + header + data);
  }

  /// The message is one line that names the file and says `what`, and what was expected.
  static void expect_refused(const fs::path& file, const std::string& what,
                             const TensorChoice& choice = {}) {
    try {
      read_tensor(file, choice);
      ADD_FAILURE() << "accepted, though: " << what;
    } catch (const InputError& error) {
      const std::string message = error.what();
      EXPECT_EQ(message.find(file.string() + ": "), 0U) << message;
      EXPECT_NE(message.find(what), std::string::npos) << message;
      EXPECT_NE(message.find(", expected "), std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
  }
};

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), 4 * values.size()};
}

TEST_F(TensorFile, NpyRoundTrips) {
  for (const Element e : every_element)
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 3}, Shape{2, 0, 3}, Shape{1, 2, 3, 4}}) {
      const Tensor written = small_tensor(e, shape);
      write_npy(path("t.npy"), written);
      const bool is_tf32 = e == Element::tf32;  // written as fp32
      const bool is_opaque = e == Element::e4m3 || e == Element::e5m2;
      const Tensor read =
          read_tensor(path("t.npy"), {{}, is_opaque ? std::optional(e) : std::nullopt});
      EXPECT_EQ(read.element(), is_tf32 ? Element::fp32 : e);
      EXPECT_EQ(read.shape(), shape);
      EXPECT_EQ(bytes_of_tensor(read), bytes_of_tensor(written)) << name_of(e);
    }
}

TEST_F(TensorFile, NpyElementsStartAtAMultipleOf64) {
  for (std::int64_t n = 1; n < 1000000000; n *= 10) {
    write_npy(path("t.npy"), Tensor(Element::boolean, {n % 7, n, 0}));
    EXPECT_EQ(fs::file_size(path("t.npy")) % 64, 0U);
  }
}

TEST_F(TensorFile, NpyVersionsAndSpelling) {
  const std::string data = floats({1, 2});
  for (const char major : {'\1', '\2', '\3'}) {
    const Tensor t = read_tensor(
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }  \n", data, major));
    EXPECT_EQ(t.values(), (std::vector<double>{1, 2}));
  }
  EXPECT_EQ(read_tensor(npy(R"({"shape":(2,),"fortran_order":True,"descr":"<f4"})", data)).at(1),
            2);
}

TEST_F(TensorFile, NpyFortranOrder) {
  const Tensor t = read_tensor(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}",
                                   floats({0, 10, 1, 11, 2, 12})));
  EXPECT_EQ(t.values(), (std::vector<double>{0, 1, 2, 10, 11, 12}));
}

TEST_F(TensorFile, NpyRawBitsNeedANamedFormat) {
  const std::string rest = ", 'fortran_order': False, 'shape': (1,)}";
  const std::string one_bf16{'\x80', '\x3f'}, one_e4m3{'\x38'};
  EXPECT_EQ(read_tensor(npy("{'descr': '<u2'" + rest, one_bf16), {{}, Element::bf16}).at(0), 1);
  EXPECT_EQ(read_tensor(npy("{'descr': '<V2'" + rest, one_bf16)).at(0), 1);
  EXPECT_EQ(read_tensor(npy("{'descr': 'bfloat16'" + rest, one_bf16)).at(0), 1);
  EXPECT_EQ(read_tensor(npy("{'descr': '|V1'" + rest, one_e4m3), {{}, Element::e4m3}).at(0), 1);
  EXPECT_EQ(read_tensor(npy("{'descr': '<f1'" + rest, {'\x3c'})).at(0), 1);  // e5m2
  expect_refused(npy("{'descr': '<u2'" + rest, one_bf16), "element type '<u2'");
  expect_refused(npy("{'descr': '|V1'" + rest, one_e4m3), "element type '|V1'");
  expect_refused(npy("{'descr': '<u2'" + rest, one_bf16), "'<u2'", {{}, Element::e4m3});
}

TEST_F(TensorFile, NpyHeaderRefusals) {
  const auto refused = [this](const std::string& header, const std::string& what) {
    expect_refused(npy(header, floats({1, 2})), what);
  };
  const std::string type = "'descr': '<f4', ", order = "'fortran_order': False, ";
  const std::string shape = "'shape': (2,)";
  refused("", "unexpected character");
  refused("[" + type + order + shape + "]", "unexpected character");
  refused("{" + type + order + shape, "no ','");
  refused("{" + type + order + "}", "key is missing");
  refused("{" + type + type + order + shape + "}", "key twice");
  refused("{" + type + order + shape + ", 'x': 1}", "key 'x'");
  refused("{" + type + order + shape + "} x", "after the dictionary");
  refused("{" + type + order + "'shape': (2 2)}", "no ',' after an axis");
  refused("{" + type + order + "'shape': (-2,)}", "bad axis");
  refused("{" + type + order + "'shape': (99999999999999999999,)}", "bad axis");
  refused("{" + type + order + "'shape': (1, 1, 1, 1, 2)}", "more than four axes");
  refused("{" + type + order + "'shape': (4611686018427387904, 4)}", "8 bytes of elements");
  refused("{" + type + order + "'shape': (0, 9223372036854775807, 8)}", "8 bytes of elements");
  refused("{" + type + order + "'shape': (1000000000,)}", "8 bytes of elements");
  refused("{" + type + order + "'shape': (1,)}", "8 bytes of elements");
  refused("{" + type + "'fortran_order': 0, " + shape + "}", "bad fortran_order");
  refused("{'descr: 1}", "open quote");
  refused("{descr: 1}", "no quote");
  refused("{'descr': '>f4', " + order + shape + "}", "big-endian");
  refused("{'descr': '<c8', " + order + shape + "}", "element type '<c8'");
  refused("{'descr': [('a', '<f4')], " + order + shape + "}", "structured type");
  refused("{'descr': '" + std::string(200, 'f') + "\n', " + order + shape + "}", "fff...'");
  refused("{" + type + order + shape + "}" + std::string(10000, ' '), "at most 10000");
  expect_refused(npy("{" + type + order + shape + "}", floats({1, 2})), "holds fp32",
                 {{}, Element::fp64});
}

TEST_F(TensorFile, NpyTruncations) {
  write_npy(path("t.npy"), small_tensor(Element::fp32, {4}));
  std::string bytes(fs::file_size(path("t.npy")), '\0');
  std::ifstream(path("t.npy"), std::ios::binary).read(bytes.data(), std::ssize(bytes));
  for (std::size_t length = 0; length < bytes.size(); ++length)
    expect_refused(put("x.npy", bytes.substr(0, length)), "");
  expect_refused(put("x.npy", bytes + "x"), "17 bytes of elements, expected 16");
  expect_refused(put("x.npy", "\x93NUMPX" + bytes.substr(6)), "magic string");
  expect_refused(put("x.npy", bytes.substr(0, 6) + '\4' + bytes.substr(7)), "version 4.0");
  expect_refused(put("x.npy", bytes.substr(0, 7) + '\1' + bytes.substr(8)), "version 1.1");
  expect_refused(put("x.npy", "\x93NUMPY\2\0\xff\xff\xff\xff"s), "at most 10000");
}

TEST_F(TensorFile, WhatIsNotAFile) {
  expect_refused(path("missing.npy"), "no such file");
  expect_refused(put("x.txt", "x"), "ends in '.txt'");
  expect_refused(put("empty.npy", ""), "magic string");
  expect_refused(put("empty.safetensors", ""), "ends at byte 0");
  fs::create_directory(path("folder.npy"));
  expect_refused(path("folder.npy"), "is a directory");
  expect_refused("/dev/null", "not a regular file");
}

TEST_F(TensorFile, SafetensorsRoundTrip) {
  std::map<std::string, Tensor> written;
  for (const Element e : every_element)
    written["layer." + std::string(name_of(e))] = small_tensor(e, {3, 1});
  written["scalar \xc3\xbc \" \\"] = small_tensor(Element::bf16, {});
  written["empty"] = small_tensor(Element::fp64, {2, 0});
  write_safetensors(path("t.safetensors"), written);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : written) {
    names.push_back(name);
    const Tensor read = read_tensor(path("t.safetensors"), {name, {}});
    const bool is_tf32 = tensor.element() == Element::tf32;  // written as fp32
    EXPECT_EQ(read.element(), is_tf32 ? Element::fp32 : tensor.element());
    EXPECT_EQ(read.shape(), tensor.shape());
    EXPECT_EQ(bytes_of_tensor(read), bytes_of_tensor(tensor)) << name;
  }
  EXPECT_EQ(tensor_names(path("t.safetensors")), names);
}

TEST_F(TensorFile, SafetensorsChoice) {
  const std::string one = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const std::string other = R"({"dtype":"U8","shape":[4],"data_offsets":[4,8]})";
  EXPECT_EQ(read_tensor(safetensors(R"({"a":)" + one + "}", floats({7}))).at(0), 7);
  const fs::path both = safetensors(
      R"({"__metadata__":{"format":"pt"},"a":)" + one + R"(,"b":)" + other + "}  ", floats({7, 8}));
  EXPECT_EQ(tensor_names(both), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(read_tensor(both, {"a", Element::fp32}).at(0), 7);
  expect_refused(both, "no tensor chosen, expected one of 'a' 'b'");
  expect_refused(both, "no tensor 'c', expected one of 'a' 'b'", {"c", {}});
  expect_refused(both, "tensor 'b': dtype 'U8'", {"b", {}});
  expect_refused(both, "holds fp32, expected bf16", {"a", Element::bf16});
  expect_refused(safetensors("{}", ""), "no tensor chosen, expected a file with tensors");
  const std::string deep = R"({"dtype":"F32","shape":[1,1,1,1,1],"data_offsets":[0,4]})";
  expect_refused(safetensors(R"({"a":)" + deep + "}", floats({7})), "5 axes");
}

TEST_F(TensorFile, SafetensorsHeaderRefusals) {
  const auto refused = [this](const std::string& header, const std::string& what) {
    expect_refused(safetensors(header, floats({1, 2})), what, {"a", {}});
  };
  refused("", "not JSON");
  refused("[]", "not JSON");
  refused("{\"a\":", "not JSON");
  refused("{\"\xff\":1}", "not JSON");
  refused(R"({"a":[[[[[1]]]]]})", "too deep");
  refused(std::string(100000, '['), "too deep");
  refused(R"({"a":1})", "not an object");
  const auto tensor = [](const std::string& type, const std::string& shape,
                         const std::string& offsets) {
    return R"({"dtype":)" + type + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  const std::string good = tensor("\"F32\"", "[2]", "[0,8]");
  refused(R"({"a":)" + good + R"(,"a":)" + good + "}", "a name twice");
  const auto refused_tensor = [&](const std::string& type, const std::string& shape,
                                  const std::string& offsets, const std::string& what) {
    refused(R"({"a":)" + tensor(type, shape, offsets) + "}", "tensor 'a': " + what);
  };
  refused(R"({"a":{}})", "no dtype");
  refused(R"({"a":{"dtype":"F32"}})", "bad shape");
  refused(R"({"a":{"dtype":"F32","shape":[2]}})", "bad data_offsets");
  refused_tensor("4", "[2]", "[0,8]", "no dtype");
  refused_tensor("\"F32\"", "2", "[0,8]", "bad shape");
  refused_tensor("\"F32\"", "[-2]", "[0,8]", "bad shape");
  refused_tensor("\"F32\"", "[2.0]", "[0,8]", "bad shape");
  refused_tensor("\"F32\"", "[18446744073709551615]", "[0,8]", "bad shape");
  refused_tensor("\"F32\"", "[4611686018427387904,4]", "[0,8]", "8 bytes, expected more than");
  refused_tensor("\"F32\"", "[3]", "[0,8]", "8 bytes, expected 12");
  refused_tensor("\"F32\"", "[2]", "[0]", "bad data_offsets");
  refused_tensor("\"F32\"", "[2]", "[8,0]", "bad data_offsets");
  refused_tensor("\"F32\"", "[2]", "[-8,0]", "bad data_offsets");
  refused_tensor("\"F32\"", "[2]", "[4,12]", "ends at byte 12 of the data, expected at most 8");
  refused_tensor("\"F32\"", "[1]", "[4,8]", "begins at byte 4 of the data, expected 0");
}

TEST_F(TensorFile, SafetensorsTilesItsData) {
  const auto two = [](const std::string& first, const std::string& second) {
    const std::string start = R"({"dtype":"F32","shape":[1],"data_offsets":)";
    return R"({"a":)" + start + first + R"(},"b":)" + start + second + "}}";
  };
  EXPECT_EQ(read_tensor(safetensors(two("[4,8]", "[0,4]"), floats({1, 2})), {"a", {}}).at(0), 2);
  expect_refused(safetensors(two("[0,4]", "[0,4]"), floats({1})), "begins at byte 0", {"a", {}});
  expect_refused(safetensors(two("[0,4]", "[8,12]"), floats({1, 2, 3})), "begins at byte 8",
                 {"a", {}});
  expect_refused(safetensors(two("[0,4]", "[4,8]"), floats({1, 2, 3})),
                 "12 bytes of data, expected 8", {"a", {}});
}

TEST_F(TensorFile, SafetensorsTruncations) {
  write_safetensors(path("t.safetensors"), {{"a", small_tensor(Element::fp16, {4})}});
  std::string bytes(fs::file_size(path("t.safetensors")), '\0');
  std::ifstream(path("t.safetensors"), std::ios::binary).read(bytes.data(), std::ssize(bytes));
  for (std::size_t length = 0; length < bytes.size(); ++length)
    expect_refused(put("x.safetensors", bytes.substr(0, length)), "");
  expect_refused(put("x.safetensors", std::string(8, '\xff') + bytes.substr(8)), "a header of");
}

TEST_F(TensorFile, WritingReplacesTheFileAndLeavesNothingBehind) {
  put("t.npy", "old");
  write_npy(path("t.npy"), small_tensor(Element::fp32, {2}));
  EXPECT_EQ(read_tensor(path("t.npy")).count(), 2);
  fs::create_directory(path("folder.npy"));
  put("folder.npy/inside", "");
  EXPECT_THROW(write_npy(path("folder.npy"), Tensor()), InputError);
  EXPECT_THROW(write_npy(path("missing/t.npy"), Tensor()), InputError);
  for (const auto& entry : fs::directory_iterator(path("")))
    EXPECT_EQ(entry.path().string().find("partial"), std::string::npos) << entry.path();
}

TEST(InputError, IsOneLine) {
  EXPECT_STREQ(InputError("f.toml", 3, "bad\nkey", "a name").what(),
               "f.toml:3: bad?key, expected a name");
  EXPECT_STREQ(InputError("f.npy", "bad").what(), "f.npy: bad");
}

TEST_F(TensorFile, Int32IsWidenedWhereInt64IsWanted) {
  const Tensor narrow(Element::int32, {3}, std::vector<double>{-100, 0, 2147483647});
  write_npy(path("t.npy"), narrow);
  write_safetensors(path("t.safetensors"), {{"t", narrow}});
  for (const char* name : {"t.npy", "t.safetensors"}) {
    const Tensor wide = read_tensor(path(name), {{}, Element::int64});
    EXPECT_EQ(wide.element(), Element::int64);
    EXPECT_EQ(wide.values(), narrow.values());
    EXPECT_EQ(read_tensor(path(name)).element(), Element::int32);
  }
  write_npy(path("w.npy"), Tensor(Element::fp32, {3}));
  expect_refused(path("w.npy"), "holds fp32, expected int64 or int32", {{}, Element::int64});
}

}  // namespace
}  // namespace opbound
