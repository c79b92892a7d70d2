gy_test(linear cpu kv codec op base)
gy_test(math cpu kv codec op base)
gy_test(rows cpu kv codec op base)
gy_test(attn cpu kv codec op base)

add_executable(linear_bench EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/bench/linear_bench.c)
target_link_libraries(linear_bench PRIVATE -Wl,--start-group gy_cpu gy_kv gy_codec gy_op gy_base -Wl,--end-group Threads::Threads m)
