// Which rows a segment has, and which items CUB adds for it, on the host and on the device.
//
// CUB adds items that lie one after the other. Rows of several columns are told to it column by
// column, item c rows + i being column c of row i, and a segment of rows as one segment for each
// column, those of a segment in a row. Ids are sorted first (cub::DeviceRadixSort, which is
// stable), so that the rows of a segment are neighbours, which a binary search finds.
#pragma once

#include "ops/portable.hpp"

namespace opbound::with_cub {

/// A tensor of int32 or int64.
struct Index {
  const void* data;
  long long stride;
  bool is_wide;

  OPBOUND_HD long long operator[](long long i) const {
    return is_wide ? static_cast<const long long*>(data)[i * stride]
                   : static_cast<const int*>(data)[i * stride];
  }
};

/// Of offsets as far as there are such rows, or of `sorted` ids, if there are these. CUB takes a
/// segment for empty only where its end is its beginning, and does not look for rows that are not
/// there.
struct Segments {
  Index offsets;
  const long long* sorted;
  long long rows, width;

  /// The first item of CUB's segment k, and the one behind its last.
  OPBOUND_HD long long first_item(long long k) const {
    return k % width * rows + first_row(k / width);
  }
  OPBOUND_HD long long end_item(long long k) const { return k % width * rows + end_row(k / width); }

 private:
  OPBOUND_HD long long clipped(long long i) const { return i < 0 ? 0 : i > rows ? rows : i; }
  OPBOUND_HD long long first_not_below(long long id) const {
    long long low = 0, high = rows;
    while (low < high) {
      const long long middle = low + (high - low) / 2;
      if (sorted[middle] < id)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
  OPBOUND_HD long long first_row(long long segment) const {
    return sorted != nullptr ? first_not_below(segment) : clipped(offsets[segment]);
  }
  OPBOUND_HD long long end_row(long long segment) const {
    if (sorted != nullptr) return first_not_below(segment + 1);
    const long long first = first_row(segment), end = clipped(offsets[segment + 1]);
    return end < first ? first : end;
  }
};

/// Where items are in x; `order` are the rows sorted by their ids, or none.
struct Items {
  const long long* order;
  long long rows, row_stride, column_stride;

  OPBOUND_HD long long place_of(long long item) const {
    const long long row = order == nullptr ? item % rows : order[item % rows];
    return row * row_stride + item / rows * column_stride;
  }
};

/// Where the sums of CUB's segments go in y.
struct Results {
  long long width, row_stride, column_stride;

  OPBOUND_HD long long place_of(long long k) const {
    return k / width * row_stride + k % width * column_stride;
  }
};

}  // namespace opbound::with_cub
