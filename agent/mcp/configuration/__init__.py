"""Reading which MCP servers there are: files in the formats of other hosts, and a person's own.

``parse`` is the door: a file's text in, servers and what is wrong with others out.
"""
