# gdb loads the commands by itself, without `gpumem gdb`. For an object file OBJECT gdb looks for OBJECT-gdb.py beside it, and under
# each auto-load folder, of which PREFIX/share/gdb/auto-load is one where gdb itself is in PREFIX.
#
# Beside: the agent and the simulated device, so that a gdb on a recorded or simulated program has the commands. Under the folder: this
# machine's Python, unless there is such a file already (Debian's python3-dbg has one, which prints Python's stack).
set(GPUMEM_GDB_AUTO_LOAD "auto" CACHE STRING
	"Object files at which gdb loads gpumem, by their full paths; auto: this machine's Python; empty: none but gpumem's own libraries")

function(gm_auto_load_script folder object)
	get_filename_component(name ${object} NAME)
	file(RELATIVE_PATH GM_PLUGIN /prefix/${folder} /prefix/${CMAKE_INSTALL_DATADIR}/gpumem/gdb)
	set(GM_OBJECT ${name})
	set(made ${PROJECT_BINARY_DIR}/auto-load/${folder}/${name}-gdb.py)
	configure_file(${PROJECT_SOURCE_DIR}/gdb/auto-load.py.in ${made} @ONLY)
	install(FILES ${made} DESTINATION ${folder})
endfunction()

function(gm_auto_load)
	foreach(library IN ITEMS libgpumem-agent.so libgpumem-sim.so)
		gm_auto_load_script(${CMAKE_INSTALL_LIBDIR} ${library})
	endforeach()
	set(objects ${GPUMEM_GDB_AUTO_LOAD})
	if(objects STREQUAL "auto")
		set(objects)
		# a Python may be behind a script (pyenv), or a link
		execute_process(COMMAND ${Python3_EXECUTABLE} -c "import os, sys; print(os.path.realpath(sys.executable))"
			OUTPUT_VARIABLE python OUTPUT_STRIP_TRAILING_WHITESPACE)
		get_filename_component(system /usr/bin/python3 REALPATH)
		file(GLOB libraries /usr/lib/*/libpython3.*.so.1.0 /usr/lib64/libpython3.*.so.1.0)
		set(pythons ${python} ${system} ${libraries})
		list(REMOVE_DUPLICATES pythons)
		foreach(object IN LISTS pythons)
			if(EXISTS ${object} AND NOT EXISTS ${object}-gdb.py AND NOT EXISTS /usr/share/gdb/auto-load${object}-gdb.py)
				list(APPEND objects ${object})
			endif()
		endforeach()
	endif()
	foreach(object IN LISTS objects)
		get_filename_component(folder ${object} DIRECTORY)
		gm_auto_load_script(${CMAKE_INSTALL_DATADIR}/gdb/auto-load${folder} ${object})
	endforeach()
endfunction()
