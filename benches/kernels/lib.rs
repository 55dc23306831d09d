//! Nothing but the benchmarks beside this file.
