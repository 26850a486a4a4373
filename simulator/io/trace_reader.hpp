// Reads traces of links in CSV: a line has a time and values, which hold until the time of the next line.
#pragma once

#include <string>

#include "core/io/text/yaml_reader.hpp"
#include "simulator/io/folder_files.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::io {

struct TraceFormat {
  bool relative = false;
  Unit time = time_unit("s"), value{"", 0};
  double reference = 1;  // divides the values of a relative trace, in base units
  std::string column;    // name, or number from 1; empty: the second of two
  bool repeat = false;
  double period = 0;  // of a repeated trace, s; 0: the last value lasts as long as the one before it
};

/// Reads the trace of an entry {file, kind, unit, column, time_unit, repeat, reference} of a scenario:
///   kind: relative   values are factors, or with `unit` and `reference: 1 Gbps`, factors × reference
///   kind: absolute   values are rates or times in `unit` that replace those of the topology
///   column           name or number of the column with the values; not needed if there are two columns
///   time_unit        unit of the first column; default s
///   repeat           true, or the time after which the trace repeats (with true, the last value lasts as
///                    long as the one before it)
/// Throws Error with the position in the scenario or the trace file.
sim::Trace read_trace(const YamlValue& value, sim::LinkTrace::Quantity quantity, FolderFiles& files);

/// Among lines of equal time the last applies. Throws Error with file:line:column for a file without values,
/// decreasing times, and a value that is missing, negative or not a number.
sim::Trace parse_trace(std::string text, const std::string& file, const TraceFormat& format);

}  // namespace dtfm::io
