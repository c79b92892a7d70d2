gy_test(linear cpu kv codec op base)
gy_test(math cpu kv codec op base)
gy_test(rows cpu kv codec op base)
gy_test(attn cpu kv codec op base)
gy_test(scan cpu kv codec op base)
gy_test(moe cpu kv codec op base)

foreach(bench linear_bench attn_bench)
  add_executable(${bench} EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/bench/${bench}.c)
  target_link_libraries(${bench} PRIVATE -Wl,--start-group gy_cpu gy_kv gy_codec gy_op gy_base -Wl,--end-group
                        Threads::Threads m)
endforeach()
add_executable(depth_bench EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/bench/depth_bench.c)
target_link_libraries(depth_bench PRIVATE gyre_all)
