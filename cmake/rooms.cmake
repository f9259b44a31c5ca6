# A room is a folder of core/: one static library, which may use only the rooms that core/rooms.txt names for it. Its headers
# are included as "room/header.h". The include path shows every room the whole core, so the compiler does not see the direction of
# the arrows; tests/check_rooms.py checks it by the same list.

find_package(PkgConfig)
# What is missing is told as the package that brings it.
function(gm_missing what package)
	message(FATAL_ERROR "${what} was not found. Debian: apt-get install ${package} (all that the build needs: scripts/packages.txt)")
endfunction()
if(NOT PKG_CONFIG_FOUND)
	gm_missing(pkg-config pkg-config)
endif()
foreach(library IN ITEMS ELF:libelf:libelf-dev DW:libdw:libdw-dev ZLIB:zlib:zlib1g-dev ZSTD:libzstd:libzstd-dev
	LZMA:liblzma:liblzma-dev SQLITE:sqlite3:libsqlite3-dev CURSES:ncurses:libncurses-dev JANSSON:jansson:libjansson-dev)
	string(REPLACE ":" ";" library ${library})
	list(GET library 0 variable)
	list(GET library 1 name)
	list(GET library 2 package)
	pkg_check_modules(${variable} IMPORTED_TARGET ${name})
	if(NOT ${variable}_FOUND)
		gm_missing(${name} ${package})
	endif()
endforeach()
find_path(UTHASH_INCLUDE_DIR uthash.h)
if(NOT UTHASH_INCLUDE_DIR)
	gm_missing(uthash uthash-dev)
endif()
find_package(Threads REQUIRED)

add_library(gm_options INTERFACE)
target_compile_definitions(gm_options INTERFACE _GNU_SOURCE GPUMEM_VERSION="${PROJECT_VERSION}")
target_include_directories(gm_options INTERFACE ${PROJECT_SOURCE_DIR}/core ${PROJECT_SOURCE_DIR}/core/include)
target_compile_options(gm_options INTERFACE
	-Wall -Wextra -Werror -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes
	-Wformat=2 -Wundef -Wvla -Wwrite-strings -Wno-unused-parameter -Wno-missing-field-initializers
	-fno-strict-aliasing -mpopcnt ${GM_HARDENING})
target_link_options(gm_options INTERFACE ${GM_HARDENING_LINK})
if(NOT GPUMEM_SANITIZE AND NOT GPUMEM_FUZZ)
	target_compile_options(gm_options INTERFACE ${GM_FORTIFY_OPTIMISED})
endif()
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
	target_compile_options(gm_options INTERFACE -Wlogical-op -Wduplicated-cond)
endif()
if(GPUMEM_SANITIZE)
	# -O1 is what the sanitizers ask for; it compiles in two thirds of the time of -O2. -g1: reports have files and lines.
	target_compile_options(gm_options INTERFACE -fsanitize=address,undefined -fno-omit-frame-pointer
		-fno-sanitize-recover=undefined -O1 -g1)
	target_link_options(gm_options INTERFACE -fsanitize=address,undefined)
endif()
if(GPUMEM_FUZZ)
	if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
		message(FATAL_ERROR "GPUMEM_FUZZ needs clang: CC=clang cmake …")
	endif()
	# What only gets compiled (tests/CMakeLists.txt) needs neither the sanitizers nor optimisation, which take clang most of its time.
	set(run -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -O1 -g1)
	set(not_run "$<BOOL:$<TARGET_PROPERTY:GM_NOT_RUN>>")
	target_compile_options(gm_options INTERFACE "$<$<NOT:${not_run}>:${run}>" "$<${not_run}:-O0;-g0>")
	# Rooms that no fuzzer reaches, and of `ask` all but the reader of error messages.
	set(GM_NOT_FUZZED inject preload holders record walk view cli export replay learn api)
	file(GLOB_RECURSE asking ${PROJECT_SOURCE_DIR}/core/ask/*.c)
	list(FILTER asking EXCLUDE REGEX "/ask/oom/")
	set_source_files_properties(${asking} PROPERTIES COMPILE_OPTIONS "-fno-sanitize=all;-O0;-g0")
	target_link_options(gm_options INTERFACE -fsanitize=address,undefined)
endif()

set_property(GLOBAL PROPERTY GM_ROOMS "")

# The folders within a room that are part of it. Others (core/cli/main, core/agent/stacks, …) are targets of their own.
set(GM_FOLDERS_cpython versions decode objects threads sweep)
set(GM_FOLDERS_holders graph native heap unattributed search describe retained)
set(GM_FOLDERS_ask recording target oom zero names advise)
set(GM_FOLDERS_ranks render sections)

# The page of core/view/page, as a C file of the room.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
function(gm_page target)
	file(GLOB parts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/core/view/page/*)
	add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/page.c
		COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/core/view/page/bundle.py ${PROJECT_BINARY_DIR}/page.c
		DEPENDS ${parts})
	target_sources(${target} PRIVATE ${PROJECT_BINARY_DIR}/page.c)
endfunction()

# Which analysis a summary of core/ranks is of.
function(gm_ranks_analysis target)
	set(core ${PROJECT_SOURCE_DIR}/core)
	file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${core}/ask/*.[ch] ${core}/import/*.[ch] ${core}/log/*.[ch] ${core}/model/*.[ch]
		${core}/ranks/*.[ch] ${core}/spool/*.[ch])
	set(script ${PROJECT_SOURCE_DIR}/cmake/analysis.cmake)
	set(out ${PROJECT_BINARY_DIR}/ranks_analysis.c)
	add_custom_command(OUTPUT ${out} COMMAND ${CMAKE_COMMAND} -D CORE=${core} -D OUT=${out} -P ${script} DEPENDS ${sources} ${script})
	target_sources(${target} PRIVATE ${out})
endfunction()

function(gm_room name)
	set(folders)
	foreach(folder IN LISTS GM_FOLDERS_${name})
		list(APPEND folders ${PROJECT_SOURCE_DIR}/core/${name}/${folder}/*.c)
	endforeach()
	file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/core/${name}/*.c ${folders})
	if(NOT sources)
		file(WRITE ${PROJECT_BINARY_DIR}/empty_${name}.c "typedef int gm_empty_${name};\n")
		set(sources ${PROJECT_BINARY_DIR}/empty_${name}.c)
	endif()
	add_library(gm_${name} STATIC ${sources})
	target_link_libraries(gm_${name} PUBLIC gm_options)
	if(name IN_LIST GM_NOT_FUZZED)
		set_target_properties(gm_${name} PROPERTIES GM_NOT_RUN ON)
	endif()
	foreach(other IN LISTS ARGN)
		target_link_libraries(gm_${name} PUBLIC gm_${other})
	endforeach()
	if(name STREQUAL "symbols")
		target_link_libraries(gm_symbols PUBLIC PkgConfig::DW PkgConfig::ELF ${CMAKE_DL_LIBS} stdc++)
	elseif(name STREQUAL "image")
		target_link_libraries(gm_image PUBLIC PkgConfig::ZLIB PkgConfig::ZSTD PkgConfig::LZMA)
	elseif(name STREQUAL "log")
		target_link_libraries(gm_log PUBLIC PkgConfig::ZLIB PkgConfig::ZSTD)
	elseif(name STREQUAL "render")
		target_link_libraries(gm_render PUBLIC PkgConfig::JANSSON m)
	elseif(name STREQUAL "estimate")
		target_link_libraries(gm_estimate PUBLIC PkgConfig::JANSSON m)
	elseif(name STREQUAL "export")
		target_link_libraries(gm_export PUBLIC PkgConfig::SQLITE)
	elseif(name STREQUAL "view")
		gm_page(gm_view)
		target_link_libraries(gm_view PUBLIC PkgConfig::ZLIB)
	elseif(name STREQUAL "cli")
		target_link_libraries(gm_cli PUBLIC PkgConfig::CURSES)
	elseif(name STREQUAL "ranks")
		gm_ranks_analysis(gm_ranks)
	elseif(name STREQUAL "holders")
		target_link_libraries(gm_holders PUBLIC Threads::Threads)
	endif()
	set_property(GLOBAL APPEND PROPERTY GM_ROOMS gm_${name})
endfunction()

# One static library for each line of core/rooms.txt. A header that stands alone (model/steps.h) links its room too; the agent is a
# target of its own, and no room links with it.
function(gm_rooms)
	set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/core/rooms.txt)
	file(STRINGS ${PROJECT_SOURCE_DIR}/core/rooms.txt lines REGEX "^[a-z]+:")
	foreach(line IN LISTS lines)
		string(REGEX REPLACE ":.*" "" room ${line})
		string(REGEX REPLACE "^[a-z]+: *" "" targets ${line})
		separate_arguments(targets)
		list(TRANSFORM targets REPLACE "/.*" "")
		list(REMOVE_ITEM targets agent)
		if(NOT room STREQUAL "agent")
			gm_room(${room} ${targets})
		endif()
	endforeach()
endfunction()

# Allocations that fail are noted, in what answers questions: core/base/allocation.h.
set(wrapped aligned_alloc asprintf calloc fdopendir fmemopen fopen __getdelim malloc open_memstream opendir realloc
	realpath strdup strndup vasprintf)
list(TRANSFORM wrapped PREPEND -Wl,--wrap=)
set(GM_WRAPPED ${wrapped}) # for tests/ too

# libgpumem.so: the public header, versioned symbols; what gdb's plugin loads with ctypes.
function(gm_public_library)
	get_property(rooms GLOBAL PROPERTY GM_ROOMS)
	file(WRITE ${PROJECT_BINARY_DIR}/empty.c "typedef int gm_empty;\n")
	add_library(gpumem SHARED ${PROJECT_BINARY_DIR}/empty.c)
	list(REVERSE rooms)
	target_link_libraries(gpumem PRIVATE -Wl,--whole-archive gm_api gm_cli -Wl,--no-whole-archive ${rooms}
		-Wl,--version-script=${PROJECT_SOURCE_DIR}/core/include/gpumem.map)
	target_link_options(gpumem PRIVATE ${wrapped})
	set_target_properties(gpumem PROPERTIES
		LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib VERSION ${PROJECT_VERSION} SOVERSION 0
		LINK_DEPENDS ${PROJECT_SOURCE_DIR}/core/include/gpumem.map)
	set(links)
	if(GPUMEM_WHEEL)
		set(links NAMELINK_SKIP)
	endif()
	install(TARGETS gpumem LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ${links})
	install(FILES ${PROJECT_SOURCE_DIR}/core/include/gpumem.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
	# pkg-config finds the prefix from where the file lies: an installed folder can be moved.
	set(pc_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
	file(RELATIVE_PATH GM_PC_PREFIX /prefix/${pc_folder} /prefix)
	configure_file(${PROJECT_SOURCE_DIR}/core/include/gpumem.pc.in ${PROJECT_BINARY_DIR}/gpumem.pc @ONLY)
	install(FILES ${PROJECT_BINARY_DIR}/gpumem.pc DESTINATION ${pc_folder})
	install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/schema/ DESTINATION ${CMAKE_INSTALL_DATADIR}/gpumem/schema)
	install(DIRECTORY ${PROJECT_SOURCE_DIR}/gdb/ DESTINATION ${CMAKE_INSTALL_DATADIR}/gpumem/gdb
		FILES_MATCHING PATTERN "*.py")
endfunction()

# A page of the manual for each command, from its --help.
function(gm_manual folder)
	set(script ${PROJECT_SOURCE_DIR}/core/cli/manual/pages.py)
	set(stamp ${PROJECT_BINARY_DIR}/man/pages)
	string(TIMESTAMP date %Y-%m-%d UTC) # SOURCE_DATE_EPOCH, if it is set
	add_custom_command(OUTPUT ${stamp}
		COMMAND Python3::Interpreter ${script} ${PROJECT_BINARY_DIR}/man ${date} $<TARGET_FILE:gpumem_command>
			$<TARGET_FILE:gpumem_ranks>
		COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
		DEPENDS gpumem_command gpumem_ranks ${script})
	add_custom_target(gpumem_manual ALL DEPENDS ${stamp})
	install(DIRECTORY ${PROJECT_BINARY_DIR}/man/ DESTINATION ${folder} FILES_MATCHING PATTERN "*.1")
endfunction()

# build/bin/gpumem: core/cli/main/main.c over the static rooms.
function(gm_shell_command)
	add_executable(gpumem_command ${PROJECT_SOURCE_DIR}/core/cli/main/main.c)
	target_link_libraries(gpumem_command PRIVATE gm_cli)
	target_link_options(gpumem_command PRIVATE ${wrapped})
	set_target_properties(gpumem_command PROPERTIES OUTPUT_NAME gpumem
		RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
	install(TARGETS gpumem_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
	# Where shells look under a prefix. A wheel's own folder is none: there it is what the Python environment shares.
	set(share ${CMAKE_INSTALL_DATADIR})
	if(GPUMEM_WHEEL)
		set(share ${SKBUILD_DATA_DIR}/share)
	endif()
	# `gpumem mcp`: where core/cli/cmd_mcp.c finds it. In a build the schemas are beside it.
	set(mcp ${PROJECT_SOURCE_DIR}/core/cli/mcp)
	foreach(file server.py tools.py answer.py guide.md)
		configure_file(${mcp}/${file} ${PROJECT_BINARY_DIR}/lib/gpumem-mcp/${file} COPYONLY)
	endforeach()
	file(CREATE_LINK ${PROJECT_SOURCE_DIR}/docs/schema/v1 ${PROJECT_BINARY_DIR}/lib/gpumem-mcp/schema SYMBOLIC)
	install(DIRECTORY ${mcp}/ DESTINATION ${CMAKE_INSTALL_LIBDIR}/gpumem-mcp FILES_MATCHING PATTERN "*.py" PATTERN "*.md")
	set(completion ${PROJECT_SOURCE_DIR}/core/cli/completion)
	install(FILES ${completion}/gpumem.bash DESTINATION ${share}/bash-completion/completions RENAME gpumem)
	install(FILES ${completion}/gpumem.bash DESTINATION ${share}/bash-completion/completions RENAME gpumem-ranks)
	install(FILES ${completion}/_gpumem DESTINATION ${share}/zsh/site-functions)
	install(FILES ${completion}/gpumem.fish DESTINATION ${share}/fish/vendor_completions.d)
	install(FILES ${completion}/gpumem.fish DESTINATION ${share}/fish/vendor_completions.d RENAME gpumem-ranks.fish)
	if(NOT GPUMEM_SANITIZE AND NOT GPUMEM_FUZZ)
		gm_manual(${share}/man/man1)
	endif()
endfunction()

# build/bin/gpumem-ranks: core/ranks over MPI. Without MPI it is built too, for one process: it then says how to get more.
function(gm_ranks_program target world)
	set(main ${PROJECT_SOURCE_DIR}/core/ranks/main)
	add_executable(${target} ${main}/main.c ${main}/world_${world}.c)
	target_link_libraries(${target} PRIVATE gm_ranks ${ARGN})
	target_link_options(${target} PRIVATE ${GM_WRAPPED})
	set_target_properties(${target} PROPERTIES OUTPUT_NAME gpumem-ranks RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endfunction()

option(GPUMEM_MPI "Build gpumem-ranks over MPI, if there is one" ON)
function(gm_ranks_command)
	if(GPUMEM_MPI AND NOT GPUMEM_WHEEL)
		find_package(MPI COMPONENTS C)
	endif()
	if(MPI_C_FOUND)
		gm_ranks_program(gpumem_ranks mpi MPI::MPI_C)
	else()
		message(STATUS "gpumem-ranks: without MPI: only one process (Debian: apt-get install libopenmpi-dev)")
		gm_ranks_program(gpumem_ranks one)
	endif()
	install(TARGETS gpumem_ranks RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()
