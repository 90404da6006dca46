"""Tables on HDFS: the name space through one name node or name service, and the bytes of files on its data nodes.

Nothing outside this package knows hdfs-native. A path is a whole URI, `hdfs://authority/path`; nothing in it is
percent-decoded.

What HDFS promises, and what it does not: a change of the name space is atomic, and in the edit log on disk (of most
journal nodes, where there are several) before it is answered. Bytes of a file that was closed are with all data nodes
of its pipeline, but in the memory of these machines until they write it out: several that lose power at once may lose
them (`dfs.datanode.synconclose` changes that, at a price). There is nothing to sync from here.
"""
