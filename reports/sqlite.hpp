// SQLite's C interface, as far as the history needs it: whatever goes wrong is an InputError that
// names the file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace opbound::sqlite {

class Database {
 public:
  /// Opens the file, which `make` makes where there is none. Waits up to `patience_ms` for others.
  /// `expected`: what the file should be, for messages.
  Database(std::string path, bool make, int patience_ms, std::string expected);

  /// Statements without results.
  void execute(const char* sql);
  /// The number that a statement gives.
  std::int64_t number(const char* sql);
  std::int64_t last_row() const;

  const std::string& path() const { return path_; }
  sqlite3* handle() const { return handle_.get(); }
  /// Throws what `status` means.
  [[noreturn]] void refuse(int status) const;

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };

  std::string path_, expected_;
  std::unique_ptr<sqlite3, Close> handle_;
};

/// One statement: each bind is for the next parameter, columns are counted from 0.
class Statement {
 public:
  Statement(Database& database, const char* sql);

  Statement& bind(std::string_view text);
  Statement& bind(std::uint64_t number);
  /// A NaN is stored as null, as SQLite does.
  Statement& bind(double number);
  Statement& bind_bytes(std::string_view bytes);
  /// Goes to the next row; false at the end.
  bool step();
  /// Ready for other parameters.
  void reset();

  std::string text(int column) const;
  std::uint64_t number(int column) const;
  /// NaN where there is none.
  double real(int column) const;
  bool is_null(int column) const;
  /// Valid until the next step.
  std::string_view bytes(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  void check(int status) const;

  Database& database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0;  // parameters
};

/// Everything until commit() is there afterwards, or nothing of it. Begins as a writer, so that two
/// of them come one after the other and neither fails halfway.
class Transaction {
 public:
  explicit Transaction(Database& database) : database_(database) {
    database.execute("BEGIN IMMEDIATE");
  }
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit() {
    database_.execute("COMMIT");
    committed_ = true;
  }

 private:
  Database& database_;
  bool committed_ = false;
};

}  // namespace opbound::sqlite
