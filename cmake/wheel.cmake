# What differs in a wheel: its folder is moved as a whole, it has no links, and it brings the libraries that a machine may lack.
# auditwheel adds those that are linked (scripts/wheel).
set(CMAKE_INSTALL_RPATH "$ORIGIN" "$ORIGIN/../lib")
# No path of the machine that builds it is in a binary.
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}=gpumem -ffile-prefix-map=${PROJECT_BINARY_DIR}=build)

function(gm_wheel)
	set_target_properties(gpumem PROPERTIES VERSION 0)
endfunction()
